"""Tool calls written into text: found wherever the text is cut, and nothing else is touched."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridle.engine.ports import ModelCall, ModelDone, ModelText
from bridle.engine.sizes import AnswerRoom
from bridle.providers.endpoints import Quirks
from bridle.providers.openai_chat import ChatDecoder
from bridle.providers.text_calls import TextCalls
from tables import table

LS = '{"name": "bash", "arguments": {"command": "ls"}}'
MARK_INSIDE = '{"name":"write_file","arguments":{"content":"a </tool_call> \\" b","path":"x"}}'


def read(pieces: list[str]) -> tuple[str, list[tuple[str, str]]]:
    parser = TextCalls(AnswerRoom())
    said = "".join(map(parser.feed, pieces)) + parser.finish()
    return said, [(call.tool, call.arguments) for call in parser.calls]


CASES: list[tuple[str, str, list[tuple[str, Any]]]] = [
    ("Hello.", "Hello.", []),
    (f"<tool_call>{LS}</tool_call>", "", [("bash", {"command": "ls"})]),
    (f"I look.\n<tool_call>\n{LS}\n</tool_call>\n", "I look.\n", [("bash", {"command": "ls"})]),
    (f"<function_call>{LS}</function_call> Done.", "Done.", [("bash", {"command": "ls"})]),
    (f"<tool_call>{LS}</tool_call>\n<tool_call>{LS}</tool_call>", "", [("bash", {"command": "ls"})] * 2),
    (f"<tool_call>[{LS},{LS}]</tool_call>", "", [("bash", {"command": "ls"})] * 2),
    (f"[TOOL_CALLS] [{LS}]", "", [("bash", {"command": "ls"})]),
    (f"So:[TOOL_CALLS]{LS} bye", "So:bye", [("bash", {"command": "ls"})]),
    (f"<tool_call>{LS}", "", [("bash", {"command": "ls"})]),
    (f"<tool_call>{LS}</tool_", "", [("bash", {"command": "ls"})]),
    (
        f"<tool_call>{MARK_INSIDE}</tool_call>.",
        ".",
        [("write_file", {"content": 'a </tool_call> " b', "path": "x"})],
    ),
    ('<tool_call>{"name":"ls"}</tool_call>', "", [("ls", None)]),
    ('<tool_call>{"name":"a","parameters":{"b":1}}</tool_call>', "", [("a", {"b": 1})]),
    ('<tool_call>{"function":{"name":"a","arguments":"{}"}}</tool_call>', "", [("a", {})]),
    ("<tool_call>", "<tool_call>", []),
    ("<tool_call></tool_call>", "<tool_call></tool_call>", []),
    ("The mark <tool_call> begins one.", "The mark <tool_call> begins one.", []),
    ('<tool_call>{"name": 1}</tool_call>', '<tool_call>{"name": 1}</tool_call>', []),
    ('<tool_call>{"nam', '<tool_call>{"nam', []),
    (
        f"<tool_call>no</tool_call> <tool_call>{LS}</tool_call>",
        "<tool_call>no</tool_call> ",
        [("bash", {"command": "ls"})],
    ),
    ("a < b <tool <", "a < b <tool <", []),
]


@table(("text", "said", "calls"), CASES)
def test_calls_are_found_and_text_stays(text: str, said: str, calls: list[tuple[str, Any]]) -> None:
    for pieces in ([text], list(text), *([text[:cut], text[cut:]] for cut in range(len(text)))):
        found_text, found = read(pieces)
        assert found_text == said
        assert [(tool, json.loads(arguments) if arguments else None) for tool, arguments in found] == calls


PIECES = st.sampled_from(
    [
        *(
            "<tool_call>",
            "</tool_call>",
            "<function_call>",
            "</function_call>",
            "[TOOL_CALLS]",
            LS,
            MARK_INSIDE,
        ),
        *("{", '"', "\\", "[", "]", "}", " ", "\n", "a", "<", "<tool", '{"name":"x"}'),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join), st.data())
def test_how_the_text_is_cut_changes_nothing(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(pieces) == read([text])


@given(st.text(st.characters(exclude_characters="<["), max_size=40))
def test_text_without_marks_is_passed_on_at_once(text: str) -> None:
    assert TextCalls(AnswerRoom()).feed(text) == text


@given(st.lists(PIECES, max_size=12).map("".join))
def test_text_that_makes_no_call_is_kept_to_the_letter(text: str) -> None:
    said, calls = read([text])
    if not calls:
        assert said == text


def frames(text: str) -> list[str]:
    delta = json.dumps({"choices": [{"delta": {"content": text}}]})
    return [delta, '{"choices":[{"delta":{},"finish_reason":"stop"}]}', "[DONE]"]


def test_only_an_endpoint_that_asks_for_it_reads_calls_in_text() -> None:
    text = f"I look. <tool_call>{LS}</tool_call>"
    assert ChatDecoder().feed(frames(text)) == [ModelText(text), ModelDone("end_turn")]
    assert ChatDecoder(Quirks(calls_in_text=True)).feed(frames(text)) == [
        ModelText("I look. "),
        ModelCall("bash", '{"command":"ls"}', None),
        ModelDone("tool_use"),
    ]
