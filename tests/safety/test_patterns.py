"""How rules match: never more than meant when they allow, never talked around too easily when they deny."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.safety.patterns import (
    command_matches_exactly,
    command_matches_generously,
    literal_pattern,
    path_matches_exactly,
    path_matches_generously,
    tool_matches,
)
from tables import table

pytestmark = pytest.mark.requirement("P20", "H7.2")


@table(
    ("pattern", "tool", "expected"),
    [
        ("bash", "bash", True),
        ("Bash", "bash", True),
        ("BASH", "bash", False),
        ("edit", "write_file", True),
        ("edit", "apply_patch", True),
        ("Edit", "edit_file", True),
        ("edit", "read_file", False),
        ("Write", "write_file", True),
        ("Write", "edit_file", False),
        ("Read", "read_file", True),
        ("WebFetch", "web_fetch", True),
        ("mcp__*", "mcp__files.v2__read_file", True),
        ("*", "anything", True),
        ("read_*", "read_file", True),
        ("read_?", "read_file", False),
        ("[rw]*_file", "write_file", True),
    ],
)
def test_tools_match_by_name_alias_and_glob(pattern: str, tool: str, expected: bool) -> None:
    assert tool_matches(pattern, tool) == expected


@table(
    ("command", "expected"),
    [
        ("npm test", True),
        ("npm test -- --watch=no", True),
        ("npm testing", True),
        ("npm run test", False),
        ("NPM test", False),
        *(
            (f"npm test{evil}", False)
            for evil in (
                *("; rm -rf ~", " && rm x", " & rm x", " | sh", "`rm x`", " $(rm x)", " $HOME", " > /etc/x"),
                *(" < x", "\nrm x", " (rm x)", "\r\nrm x", " 2>&1"),
            )
        ),
    ],
)
def test_an_allowed_prefix_allows_no_second_command(command: str, expected: bool) -> None:
    assert command_matches_exactly("npm test*", command) == expected


def test_a_command_written_out_in_full_is_allowed_as_written() -> None:
    assert command_matches_exactly("make a && make b", "make a && make b")
    assert not command_matches_exactly("make a && make *", "make a && make b")


@table(
    "command",
    [
        "rm -rf /",
        "  rm   -rf  /",
        "cd x; rm -rf /",
        "true && rm -rf /",
        "true|rm -rf /",
        "echo $(rm -rf /)",
        "echo `rm -rf /`",
        "(rm -rf /)",
        "{ rm -rf /; }",
        "x\nrm -rf /",
        "A=1 B=2 rm -rf /",
        "/bin/rm -rf /",
        "sudo rm -rf /",
        "sudo -u root /bin/rm -rf /",
        "env -i A=b rm -rf /",
        "timeout 5 rm -rf /",
        "xargs -n 1 rm -rf",
        "find . -exec rm -rf {} +",
        "bash -c 'rm -rf /'",
        'r""m -rf /',
        "r\\m -rf /",
        "if true; then rm -rf /; fi",
        "! rm -rf /",
    ],
)
def test_a_denied_command_is_found_inside_others(command: str) -> None:
    assert command_matches_generously("rm -rf*", command)


@table("command", ["echo rm -rf", "git rm -rf x", "cat rm -rf", "rmdir -rf"])
def test_a_word_that_is_only_mentioned_is_not_denied(command: str) -> None:
    assert not command_matches_generously("rm -rf*", command)


@table(
    ("pattern", "name", "exactly", "generously"),
    [
        ("src/a.py", "src/a.py", True, True),
        ("src/*", "src/a.py", True, True),
        ("src/*", "src/deep/a.py", False, True),
        ("src/**", "src/deep/a.py", True, True),
        ("src/", "src/deep/a.py", True, True),
        ("src/**/a.py", "src/a.py", True, True),
        ("src/**/a.py", "src/x/y/a.py", True, True),
        ("**/.env", ".env", True, True),
        ("**/.env", "x/.env", True, True),
        (".env", "x/.env", False, True),
        ("*.py", "deep/a.py", False, True),
        ("*", "deep/a.py", False, True),
        ("**", "deep/a.py", True, True),
        ("src", "src/a.py", False, True),
        ("src", "srcs/a.py", False, False),
        ("a?c", "abc", True, True),
        ("a?c", "a/c", False, False),
        ("[a-c].py", "b.py", True, True),
        ("[!a-c].py", "b.py", False, False),
        ("[z-a].py", "b.py", False, False),
        ("SRC/a.py", "src/a.py", False, False),
        ("a.py", "axpy", False, False),
        ("/etc/**", "/etc/ssl/x", True, True),
    ],
)
def test_paths_match_component_by_component(pattern: str, name: str, exactly: bool, generously: bool) -> None:
    assert path_matches_exactly(pattern, [name]) == exactly
    assert path_matches_generously(pattern, [name]) == generously


TEXT = st.text(alphabet="ab*?[]!-/. \\^$(){}|\n", max_size=12)


@given(TEXT, TEXT)
def test_any_text_can_be_a_pattern_and_generous_means_at_least_as_much(pattern: str, text: str) -> None:
    if path_matches_exactly(pattern, [text]):
        assert path_matches_generously(pattern, [text])
    if command_matches_exactly(pattern, text) and pattern != text:
        assert command_matches_generously(pattern, text)


@given(st.text(max_size=8), st.sampled_from(";&|`$<>()\n"), st.text(max_size=8))
def test_no_wildcard_allows_what_could_start_a_second_command(
    before: str, separator: str, after: str
) -> None:
    command = before + separator + after
    assert not command_matches_exactly(before + "*", command) or command == before + "*"


def test_a_command_of_a_hundred_thousand_words_is_matched_in_reasonable_time() -> None:
    command = "sudo " + "rm word " * 50_000
    assert not command_matches_generously("rm *x*y*z", command)
    assert not command_matches_generously("*x*y*z", command)
    assert not command_matches_generously("rm x", command)
    assert command_matches_generously("r? *x*y*z", command), "worn out is a no"


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_literal_pattern_means_its_text_and_no_other(text: str, other: str) -> None:
    assert command_matches_exactly(literal_pattern(text), text)
    pattern = literal_pattern(text)
    assert other in (text, pattern) or not command_matches_exactly(pattern, other)


@table("command", ["make *", "a[1]?; b", "npm test && make [*]"])
def test_a_literal_pattern_of_a_script_with_wildcards_in_it_still_means_only_that(command: str) -> None:
    pattern = literal_pattern(command)
    assert command_matches_exactly(pattern, command)
    assert not command_matches_exactly(pattern, command.replace("*", "all").replace("?", "x") + " ")
