"""What holds for every text, not only for those somebody thought of."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bridle.shell.command_facts import SEVERITY, ScriptContext
from bridle.shell.languages import awk_only_prints, sed_only_prints
from bridle.shell.script_reader import read_script
from bridle.shell.shell_words import UnreadableScript
from bridle.shell.understanding import understand
from effort import examples
from tables import table

HERE = ScriptContext(cwd="/w", home="/home/ana", search_path="/usr/bin:/bin")
BASH = shutil.which("bash")
PIECES = st.sampled_from(
    [
        *("a", "b", " ", "\t", "'", '"', "\\", "$", "#", "~", "{", "}", ",", "..", "=", "!", "-", "/", "[", "]", "*"),
        *(";", "&", "|", "(", ")", "\n", "\\\n", "$HOME", "${HOME}", "$'", "\\n", "x=", "2", ":", "@", "é", "`", "$("),
        *("$((", "))", "'a b'", "\\ ", "<<", ">", "<", "EOF", "if", "then", "fi", "time", "{a,b}", "&&", "||"),
        *("rm", "find", "git", "ls", "-exec", "bash -c"),
    ]
)  # fmt: skip
SOUP = st.lists(PIECES, max_size=14).map("".join)
QUIET = st.sampled_from(
    [
        ["ls", "-la", "src"],
        ["cat", "a b"],
        ["grep", "-n", "x", "y"],
        ["git", "log", "-5"],
        ["find", ".", "-name", "*.py"],
    ]
)


def _quoted(word: str, style: str) -> str:
    match style:
        case "single":
            return f"'{word}'"
        case "double":
            return f'"{word}"'
        case "escaped":
            return "".join(f"\\{character}" for character in word)
        case "mixed":
            return f"{word[:1]!r}" + f'"{word[1:]}"'
        case _:
            return f"$'{word}'"


STYLES = st.sampled_from(["single", "double", "escaped", "mixed", "ansi"])


@settings(max_examples=examples(400), deadline=None)
@given(text=st.one_of(st.text(max_size=60), SOUP))
def test_no_text_makes_it_raise_and_the_whole_is_as_bad_as_its_worst_part(text: str) -> None:
    found = understand(text, HERE)
    worst = max((SEVERITY.index(part.command_class) for part in found.parts), default=0)
    assert found.command == text
    assert found.command_class == "unparseable" or SEVERITY.index(found.command_class) == worst
    assert (found.refused is None) == (found.refused_rule is None)


@settings(max_examples=examples(200), deadline=None)
@given(words=QUIET, styles=st.lists(STYLES, min_size=5, max_size=5))
def test_quoting_changes_nothing_about_a_command(words: list[str], styles: list[str]) -> None:
    text = " ".join(_quoted(word, style) for word, style in zip(words, styles, strict=False))
    found = understand(text, HERE)
    assert found.parts[0].words == tuple(words)
    assert found.read_only


@settings(max_examples=examples(150), deadline=None)
@given(
    text=SOUP,
    more=st.sampled_from(
        ["; rm x", "\nrm x", " && rm x", " | rm x", " & rm x", " $(rm x)", "`rm x`", " > x"]
    ),
)
def test_nothing_in_front_makes_a_deletion_or_a_write_look_harmless(text: str, more: str) -> None:
    before = understand(text, HERE)
    assume(before.command_class != "unparseable" and not before.refused and "#" not in text and text.strip())
    assert not understand(text + more, HERE).read_only


@pytest.mark.skipif(BASH is None, reason="needs bash")
@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
    ],
)
@given(
    text=st.lists(PIECES.filter(lambda piece: piece not in ("<", ">", "<<")), min_size=1, max_size=8).map(
        "".join
    )
)
def test_words_that_are_known_are_the_words_the_shell_sees(tmp_path: Path, text: str) -> None:
    """Only a function that prints its arguments can run: there is no PATH, and nothing else was understood to run."""
    script = "show " + text
    try:
        read = read_script(script, home="/home/ana", folders=frozenset({str(tmp_path)}))
    except UnreadableScript:
        return
    words = [word for command in read.commands for word in command.words]
    alone = len(read.commands) == 1 and read.commands[0].words and not read.commands[0].redirections
    assume(alone and all(word.text is not None and not word.glob for word in words))
    program = 'show() { printf "%s\\0" "$@"; printf "\\n"; }; eval "$1"'
    env = {"PATH": str(tmp_path), "HOME": "/home/ana", "LC_ALL": "C.UTF-8"}
    ran = subprocess.run(
        [BASH or "", "-c", program, "sh", script], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    expected = "".join(f"{word.text}\0" for word in words[1:]) or "\0"
    assert ran.stdout.decode() == expected + "\n", os.fsdecode(ran.stderr)


def _has_sandbox() -> bool:
    sed = shutil.which("sed")
    return (
        sed is not None
        and subprocess.run(
            [sed, "--sandbox", "-n", "p"], stdin=subprocess.DEVNULL, check=False, capture_output=True
        ).returncode
        == 0
    )


SED_PIECES = st.sampled_from(
    [
        "s/a/b/",
        "s|a|b|",
        "p",
        "d",
        "w",
        "e",
        "r",
        "x",
        "g",
        "1",
        ",",
        "$",
        "!",
        "/a/",
        "{",
        "}",
        ";",
        "\n",
        "\\",
        "[",
        "]",
        " ",
        "a",
        ":l",
        "b",
    ]
)


@pytest.mark.skipif(not _has_sandbox(), reason="needs a sed that can tell")
@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(text=st.lists(SED_PIECES, min_size=1, max_size=6).map("".join))
def test_a_sed_script_that_is_believed_is_one_that_sed_itself_finds_harmless(text: str) -> None:
    """In its sandbox sed refuses scripts that write, read or run, before it does anything."""
    assume(sed_only_prints(text))
    ran = subprocess.run(
        ["sed", "--sandbox", "-n", text], stdin=subprocess.DEVNULL, check=False, capture_output=True
    )
    assert b"sandbox" not in ran.stderr


@table(
    "script",
    [
        *("1e id", "e", "w x", "1,2w x", "r x", "s/a/b/e", "s/a/b/w x", "s/a/b/gw x", "s|a|b|e", "/x/e id", "p;e id"),
        *("{e id\n}", "s/[/]/e/;e", "a\\\nx\ne id", "W x", "R x", "F;e", "s/a/b\ne/"),
    ],
)  # fmt: skip
def test_sed_scripts_that_do_more_are_not_believed(script: str) -> None:
    assert not sed_only_prints(script)


@table(
    "program",
    [
        *('BEGIN{system("x")}', '{print > "f"}', '{print | "sh"}', '"id" | getline', '@load "x"', "{print a \\\n > b}"),
        *('{printf "x" >> "f"}', 'BEGIN{ARGV[1]="/etc/passwd"}', '{print "a"; if ($1 > 2) x = 1}'),
    ],
)  # fmt: skip
def test_awk_programs_that_do_more_are_not_believed(program: str) -> None:
    assert not awk_only_prints(program)
