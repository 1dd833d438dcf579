"""What the model reads before the conversation: the system text and the tool schemas.

Owns      prompt assembly as request layers.
Imports   `engine`, `protocol`, `base`.
Start at  `instructions.py`.
Is not    an editor of requests: its layers append events, the request follows from them.
"""
