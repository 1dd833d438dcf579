"""Script files: what they say, and what a person reads when one is wrong."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.messages import Usage
from bridle.providers.script import (
    Script,
    Spend,
    Stop,
    Yield,
    answer,
    call,
    fail,
    find_script,
    parse_script,
    say,
    shipped_scripts,
    think,
    wait,
)
from tables import table


def parsed(text: str) -> Script:
    return parse_script(text, path="my.script")


def problem(text: str) -> tuple[int, str]:
    with pytest.raises(BridleError) as raised:
        parsed(text)
    assert raised.value.reason == "BadScript"
    assert raised.value.data["path"] == "my.script"
    return raised.value.data["line"], raised.value.data["problem"]


def test_a_script_is_a_list_of_answers_and_reads_like_one():
    text = """\
# A comment.
think Hm.
say I will look.

call read_file {"path": "a.txt", "first_line": 2}
usage in=10 out=20 cache_read=5
---
wait 0.5
say Done.
stop max_tokens
---
yield
"""
    assert parsed(text) == Script(
        "my.script",
        (
            answer(
                think("Hm."),
                say("I will look."),
                call("read_file", path="a.txt", first_line=2),
                Spend(Usage(input_tokens=10, output_tokens=20, cache_read_tokens=5)),
            ),
            answer(wait(0.5), say("Done."), Stop("max_tokens")),
            answer(Yield()),
        ),
    )


def test_indented_lines_continue_a_text_and_keep_their_shape():
    text = "say First.\n    # a heading\n\n      deeper\n    - item\n\nsay\n  only below\n"
    assert parsed(text).answers == (
        answer(say("First.\n# a heading\n\n  deeper\n- item"), say("only below")),
    )


def test_values_of_a_call_are_json_where_they_read_as_json_and_text_otherwise():
    text = """\
call bash
    command: echo "a: b"   # not a comment
    # a comment
    timeout_s: 5

    quoted: "5"
    flags: ["-x", true]
    broken: {"a":
    empty:
"""
    assert parsed(text).answers == (
        answer(
            call(
                "bash",
                command='echo "a: b"   # not a comment',
                timeout_s=5,
                quoted="5",
                flags=["-x", True],
                broken='{"a":',
                empty="",
            )
        ),
    )


def test_a_long_text_ends_at_its_word_and_loses_the_indentation_of_that_line():
    text = """\
call write_file
    path: a.py
    content: <<END
    def f():
        return 1

    # END of it
    ---
    END
    mode: <<STOP
  exactly
    this
STOP
say Written.
"""
    assert parsed(text).answers == (
        answer(
            call(
                "write_file",
                path="a.py",
                content="def f():\n    return 1\n\n# END of it\n---\n",
                mode="  exactly\n    this\n",
            ),
            say("Written."),
        ),
    )


def test_pace_and_chunk_hold_for_the_text_that_follows_across_answers():
    text = "say a\npace 30\nchunk 4\nsay b\n---\nthink c\npace 0\nsay d"
    assert parsed(text).answers == (
        answer(say("a"), say("b", pace=30, chunk=4)),
        answer(think("c", pace=30, chunk=4), say("d", chunk=4)),
    )


def test_a_failure_names_its_reason_and_how_often():
    text = """\
fail rate_limited retry_after=2.5 once
fail overloaded times=3 status=529
fail cut
"""
    assert parsed(text).answers == (
        answer(
            fail("rate_limited", times=1, retry_after_s=2.5),
            fail("overloaded", times=3, status=529),
            fail("cut"),
        ),
    )


def test_windows_line_ends_and_a_byte_order_mark_change_nothing():
    text = "say a\n    b\n---\ncall bash\n    command: <<END\n    ls\n    END\n"
    assert parsed("\ufeff" + text.replace("\n", "\r\n")) == parsed(text)


@table(
    ("text", "line", "words"),
    [
        ("", 1, "the script has no answers; begin with: say TEXT"),
        ("# only\n\n", 1, "the script has no answers; begin with: say TEXT"),
        ("say a\n---\n\n", 2, "the answer here is empty; for one without text write: stop end_turn"),
        ("say a\n---\npace 3\n---\nsay b", 2, "the answer here is empty"),
        ("say a\nsya b", 2, 'there is no statement "sya"; the nearest is say'),
        ("say a\nhello there", 2, 'there is no statement "hello"; known: say, think, call'),
        ("  say a", 1, "this indented line belongs to no statement"),
        ("wait 1\n  say a", 2, "this indented line belongs to no statement"),
        ('call x {"a": 1}\n  b: 2', 2, "this indented line belongs to no statement"),
        ("say a\n\nsay", 3, "say needs a text"),
        ("call", 1, "call needs the name of a tool"),
        ('\ncall bash {"a": }', 2, "the input of the call is not JSON"),
        ("call bash [1]", 1, "the input of a call is a JSON object"),
        ("call bash " + "[" * 100_000, 1, "the input of the call is not JSON"),
        ("call bash\n  ls -l", 2, "a value of a call is written as: name: value"),
        ("call bash\n  two words: 1", 2, "a value of a call is written as: name: value"),
        ("call bash\n  a: 1\n  a: 2", 3, '"a" is given twice'),
        ("call bash\n  a: <<END\n  text\n", 2, "the text that begins here has no line END after it"),
        (
            "call b\n  a: <<END\n  x\n y\n  END",
            4,
            "this line is indented less than the line that ends the text",
        ),
        ("wait soon", 1, 'wait needs a number of seconds from 0 to 86400, not "soon"'),
        ("wait nan", 1, "wait needs a number of seconds"),
        ("wait -1", 1, "wait needs a number of seconds"),
        ("fail", 1, 'fail has no reason ""; known: rate_limited,'),
        ("fail overloded", 1, 'fail has no reason "overloded"; the nearest is overloaded'),
        ("fail cut time=2", 1, 'fail has no option "time"; the nearest is times'),
        ("fail cut once=2", 1, "nothing follows once"),
        ("fail cut times=0", 1, 'times needs a whole number from 1 to 1000, not "0"'),
        ("stop max_token", 1, 'stop has no reason "max_token"; the nearest is max_tokens'),
        ("say a\ncall bash\nstop max_tokens", 1, "an answer with calls has no stop statement of its own"),
        ("usage", 1, "usage needs numbers, like: usage in=10 out=20"),
        ("usage input=1", 1, 'usage has no "input"; known: in, out, cache_read'),
        ("usage in=many", 1, "in needs a whole number from 0 to 1000000000"),
        ("pace fast", 1, "pace needs a whole number from 0 to 10000"),
        ("chunk 0", 1, "chunk needs a whole number from 1 to 1000000"),
        ("chunk ²", 1, "chunk needs a whole number"),
        ("yield now", 1, "nothing follows yield"),
        ("say a\nsay \ud800", 2, "half of a surrogate pair is not a character"),
    ],
)
def test_a_wrong_script_names_the_line_and_the_way_out(text: str, line: int, words: str):
    found_line, found = problem(text)
    assert found_line == line
    assert found.startswith(words)


def test_the_sentence_of_a_wrong_script_is_whole():
    with pytest.raises(BridleError) as raised:
        parsed("say a\nsya b")
    assert str(raised.value) == 'my.script, line 2: there is no statement "sya"; the nearest is say.'
    assert raised.value.exit_code == 2


_WORDS = st.sampled_from(
    [
        *("say", "think", "call", "wait", "fail", "yield", "stop", "usage", "pace", "chunk", "---", "#"),
        *("  ", "\t", "\n", "\n\n", "\r\n", " ", ":", "=", "<<END", "END", "{", "}", '"', "[", "1", "0.5"),
        *("rate_limited", "once", "times=", "max_tokens", "in=", "bash", "a: ", "\u2028", "\x1c", "\u3000"),
    ]
)


@given(st.one_of(st.text(), st.lists(_WORDS | st.text(max_size=3), max_size=40).map("".join)))
@example("call\u3000")
@example("say \x1c")
@example("call b\n a: " + "[" * 100_000)
def test_any_text_is_a_script_or_a_bad_script(text: str):
    outcome = script_or_problem(text)
    if isinstance(outcome, Script):
        assert outcome.answers
        assert all(one.statements for one in outcome.answers)
    else:
        assert outcome.reason == "BadScript"
        assert 1 <= outcome.data["line"] <= text.count("\n") + 1


def script_or_problem(text: str) -> Script | BridleError:
    try:
        return parsed(text)
    except BridleError as problem:
        return problem


# Printable, so that a line of it is neither blank nor ended early by the parser's own signs.
_LINES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20),
    min_size=1,
    max_size=8,
)


@given(_LINES)
def test_a_long_text_comes_out_as_it_went_in(lines: list[str]):
    content = "".join(f"{line}\n" for line in lines)
    ended = "END" + "_" * max(len(line) for line in lines)
    script = parsed(f"call write_file\n  content: <<{ended}\n{content}{ended}\n")
    assert script.answers == (answer(call("write_file", content=content)),)


def test_shipped_scripts_are_found_by_name_and_read_well():
    assert {"fix-test", "hello", "story"} <= set(shipped_scripts())
    for name in shipped_scripts():
        path, text = find_script(name)
        assert path == name
        assert parse_script(text, path=path).answers


def test_a_script_file_is_found_by_its_path(tmp_path: Path):
    file = tmp_path / "mine"
    file.write_text("say Grüße.\n", encoding="utf-8")
    assert find_script(str(file)) == (str(file), "say Grüße.\n")


def test_an_unknown_script_names_the_shipped_ones(tmp_path: Path):
    missing = str(tmp_path / "helo")
    with pytest.raises(UsageError) as raised:
        find_script(missing)
    assert str(raised.value) == (
        f'There is no script "{missing}". Give the path of a file, or one of: {", ".join(shipped_scripts())}.'
    )


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path):
    with pytest.raises(UsageError, match=r"cannot be read \(Is a directory\)\.$"):
        find_script(str(tmp_path))
    with pytest.raises(UsageError, match="cannot be read"):
        find_script("a\x00b")


def test_a_file_that_is_no_script_at_all_is_not_read_to_its_end(tmp_path: Path):
    file = tmp_path / "big"
    file.write_bytes(b"#" * 1_000_001)
    with pytest.raises(UsageError, match="longer than 1000 KB"):
        find_script(str(file))


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path):
    file = tmp_path / "latin"
    file.write_bytes("say a\nsay Grüße\n".encode("latin-1"))
    with pytest.raises(BridleError) as raised:
        find_script(str(file))
    assert raised.value.reason == "BadScript"
    assert raised.value.data == {"path": str(file), "line": 2, "problem": "byte 0xfc is not UTF-8 text"}
