"""What comes from servers and goes to them, taken apart: lines, forms, arguments of prompts, words to search by."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.mcp.input_requests import field_value, form_fields
from bridle.mcp.server_commands import prompt_arguments
from bridle.mcp.server_run import MOST_BYTES, ServerLog
from bridle.mcp.tool_lists import ListedPrompt, PromptWord
from bridle.mcp.transports import LongLine, MessageLines, WireCounts
from tables import table

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.binary(max_size=30).map(lambda one: one.replace(b"\n", b""))), st.lists(st.integers(1, 7)))
def test_lines_are_the_same_however_they_arrive(lines, cuts):
    data = b"".join(line + b"\n" for line in lines)
    reader, found, at = MessageLines(most_bytes=10_000), [], 0
    for cut in (*cuts, len(data)):
        found += reader.feed(data[at : at + cut])
        at += cut
    found += reader.feed(data[at:])
    assert found == [line for line in lines if line.strip()]


@table(
    "head",
    [b'{"jsonrpc":"2.0","id":7,"result":"', b'{"result":"', b'{"jsonrpc":"2.0","method":"x","params":"'],
)
def test_a_line_that_is_too_long_is_dropped_and_names_what_asked_for_it(head):
    end = b'","id":7}' if head.startswith(b'{"result') else b'"}'
    reader, pieces = MessageLines(most_bytes=20_000), [head, *[b"x" * 7_000] * 10, end + b'\n{"next":1}\n']
    found = [line for piece in pieces for line in reader.feed(piece)]
    size = len(head) + 70_000 + len(end)
    assert found == [LongLine(size, b"" if b"method" in head else b"7"), b'{"next":1}']
    assert len(reader._held) == 0


@given(JSON)
def test_any_form_is_read_or_refused(schema):
    form_fields({"properties": schema} if not isinstance(schema, dict) else schema)
    form_fields({"type": "object", "properties": {"a": schema}})


@table(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, " Ann ", "Ann"),
        ({"type": "string", "default": "Bo"}, "", "Bo"),
        ({"type": "integer"}, "3", 3),
        ({"type": "number"}, "3.5", 3.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean", "default": False}, "", False),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]}, "Red", "r"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "a, b", ["a", "b"]),
        ({"type": "string"}, "", None),
    ],
)
def test_what_is_written_becomes_what_the_form_wants(schema, text, value):
    ((field, one),) = form_fields({"type": "object", "properties": {"x": schema}})
    assert field_value(text, field, one) == value


@table(
    ("schema", "text"),
    [
        ({"type": "integer"}, "three"),
        ({"type": "boolean"}, "maybe"),
        ({"type": "string", "enum": ["a"]}, "b"),
        ({"type": "string", "minLength": 3}, "ab"),
    ],
)
def test_what_does_not_fit_is_said(schema, text):
    ((field, one),) = form_fields({"type": "object", "properties": {"x": schema}, "required": ["x"]})
    with pytest.raises(ValueError, match=r"\w"):
        field_value(text, field, one)
    with pytest.raises(ValueError, match="it is needed"):
        field_value("", field, one)


@table(
    ("words", "given"),
    [
        ("", {}),
        ("Ann", {"who": "Ann"}),
        ("Ann a long day", {"who": "Ann", "what": "a long day"}),
        ("what=a long day who=Ann", {"who": "Ann", "what": "a long day"}),
        ("Ann what=x=y", {"who": "Ann", "what": "x=y"}),
    ],
)
def test_the_words_behind_a_prompt_are_its_arguments(words, given):
    prompt = ListedPrompt(name="greet", arguments=(PromptWord(name="who"), PromptWord(name="what")))
    assert prompt_arguments(prompt, words) == given


def test_the_log_of_a_server_stays_short_and_keeps_no_secret(tmp_path):
    secret = "tok-" + "a1b2c3" * 4
    log = ServerLog(str(tmp_path / "log" / "mcp-x.log"))
    log.hide([secret])
    log.begin("started")
    for chunk in (b"key " + secret[:9].encode(), secret[9:].encode() + b" given\n"):
        log.hear(chunk)
    for _ in range(40):
        log.hear(b"y" * 60_000 + b"\n")
    log.note("over")
    files = sorted((tmp_path / "log").iterdir())
    assert [file.name for file in files] == ["mcp-x.log", "mcp-x.log.1"]
    assert all(file.stat().st_size <= MOST_BYTES for file in files)
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    assert not any(secret.encode() in file.read_bytes() for file in files)
    assert json.dumps(log.last_line()) == json.dumps("y" * 200)


def test_what_a_server_says_by_other_ways_than_its_standard_error_is_without_secrets_too(tmp_path):
    secret = "tok-" + "a1b2c3" * 4
    log = ServerLog(str(tmp_path / "log" / "mcp-x.log"))
    log.hide([secret])
    WireCounts(log.note).count_garbage(f"my key is {secret}".encode())
    log.note(f"info: {secret}")
    written = (tmp_path / "log" / "mcp-x.log").read_text()
    assert "no message: my key is" in written
    assert secret not in written
