"""What an implementation must do, as things you can run: vectors, port checks and the fakes we test with.

Ours and everybody's: plugin authors and other implementations use the same modules our tests use. Start with
`vectors` (cases as JSON, in `test-vectors/`) and `fake_clock` (time under your control). `openai_view` and
`responses_view` convert a conversation to OpenAI's shapes and back. Nothing below imports this package.
"""
