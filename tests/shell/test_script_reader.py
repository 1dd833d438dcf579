"""Scripts as the shell will see them: every command in them, every word as far as it is known."""

import pytest

from bridle.shell.command_facts import ScriptContext
from bridle.shell.script_reader import read_script
from bridle.shell.shell_words import UnreadableScript
from bridle.shell.understanding import understand
from tables import table


def commands(text: str) -> list[tuple[str | None, ...]]:
    script = read_script(text, home="/home/ana", folders=frozenset({"/w"}))
    return [tuple(word.text for word in command.words) for command in script.commands if command.words]


@table(
    ("text", "words"),
    [
        ("ls -la 'a b' \"c d\"", ("ls", "-la", "a b", "c d")),
        ("echo a\\ b'c'\"d\"", ("echo", "a bcd")),
        ("echo $'a\\tb' $'\\x41'", ("echo", "a\tb", "A")),
        ('echo ~ ~/x "$HOME"', ("echo", "/home/ana", "/home/ana/x", "/home/ana")),
        ("echo ${HOME}/y ${HOME:?}", ("echo", "/home/ana/y", "/home/ana")),
        ("echo $PWD", ("echo", "/w")),
        ('echo $x "$y" ~root {a,b} $(ls)', ("echo", None, None, None, None, None)),
        ("echo HEAD@{1} {} a{b}", ("echo", "HEAD@{1}", "{}", "a{b}")),
        ("dd if=~/x", ("dd", "if=/home/ana/x")),
        ("ls \\\n  -l", ("ls", "-l")),
        ("echo 'é à' ☃", ("echo", "é à", "☃")),
        ("echo a >f b 2>&1 c", ("echo", "a", "b", "c")),
        ('"l"s x', ("ls", "x")),
    ],
)  # fmt: skip
def test_a_word_is_what_the_shell_makes_of_it(text: str, words: tuple[str | None, ...]) -> None:
    assert commands(text)[0] == words


@table(
    "text",
    [
        "{}",
        "ls; {}",
        "ls && {}",
        "ls || {}",
        "ls & {}",
        "ls | {}",
        "ls |& {}",
        "({})",
        "{{ {}; }}",
        "ls\n{}",
        "echo $({})",
        'echo "$({})"',
        "echo `{}`",
        "cat <({})",
        "tee >({})",
        "ls > >({})",
        "cat <<EOF\n$({})\nEOF",
        "cat <<EOF | {}\nx\nEOF",
        "cat <<EOF && {}\nx\nEOF",
        "if true; then {}; fi",
        "if {}; then ls; fi",
        "if true; then ls; else {}; fi",
        "while true; do {}; done",
        "until {}; do ls; done",
        "for x in a $({}); do ls; done",
        "for ((i=0; i<$({}); i++)); do ls; done",
        "case x in a) {};; esac",
        "case $({}) in a) ls;; esac",
        "f() {{ {}; }}; f",
        "[[ -n $({}) ]]",
        "[ -n $({}) ]",
        "echo $((1 + $({})))",
        "echo ${{x:-$({})}}",
        "(( x = $({}) ))",
        "x=$({})",
        "x=(a $({})); ls",
        "export X=$({})",
        "! {}",
        "echo a > $({})",
        "cat <<< $({})",
    ],
)
def test_a_command_is_found_wherever_it_hides(text: str) -> None:
    assert ("touch", "x") in commands(text.format("touch x"))


@table(
    ("text", "shape"),
    [
        ("ls", "simple"),
        ("ls > f # why", "simple"),
        ("[ -f x ]", "simple"),
        ("ls | wc | cat", "pipeline"),
        ("ls 2>&1 | wc > f", "pipeline"),
        ("ls; ls", "compound"),
        ("ls &", "compound"),
        ("! ls", "compound"),
        ("ls $(pwd)", "compound"),
        ("(ls)", "compound"),
        ("ls | (cat)", "compound"),
        ("cat <<EOF\nx\nEOF", "compound"),
        ("bash -c 'ls'", "compound"),
    ],
)
def test_the_shape_tells_one_command_from_more(text: str, shape: str) -> None:
    assert understand(text, ScriptContext(cwd="/w", home="/home/ana")).shape == shape


@table(
    "text",
    [
        "ls 'x",
        'ls "x',
        "ls $(",
        "cat <<EOF\nx",
        "ls\x00",
        "ls\r\nrm x",
        "ls\u00a0x",
        "ls \u202ex",
        "ls \u200bx",
        "ls \ud800",
        "ls\x1b[2K",
        "ls -l\\\na",
        'echo "$\\\n(touch x)"',
        "echo a &\\\n& touch x",
        "ls \\ x; {ls; }",
        "echo `a \\`b\\``",
        "cat <<EOF\n`x`\nEOF",
        "cat <<EOF\nEO\\\nF\ntouch x\nEOF",
        'echo $"x"',
        "echo $'\\xff'",
        "((ls); ls)",
        "[ a > b ]",
        "a" * 70_000,
        "$(" * 100 + "ls" + ")" * 100,
        "ls;" * 500,
    ],
)
def test_what_could_be_read_in_two_ways_is_not_understood(text: str) -> None:
    found = understand(text, ScriptContext(cwd="/w", home="/home/ana"))
    assert (found.command_class, found.parts) == ("unparseable", ())
    assert found.problem


def test_a_cd_moves_what_comes_after_it_and_doubt_is_kept() -> None:
    def places(text: str) -> set[str | None]:
        found = understand(text, ScriptContext(cwd="/w", home="/home/ana"))
        return {use.path for use in found.parts[-1].uses}

    assert places("cd src && cat a") == {"src/a"}
    assert places("cd src; cat a") == {"src/a", "a"}
    assert places("cd src || cat a") == {"a"}
    assert places("cd /etc && cat a") == {"/etc/a"}
    assert places("cd && cat a") == {"/home/ana/a"}
    assert places("cd src/.. && cat a") == {"a"}
    assert places("cd $x && cat a") == {None}
    assert places("cd - && cat a") == {None}
    assert places("(cd src); cat a") == {"a"}
    assert places("cd src | cat a") == {"a"}
    assert places("if true; then cd src; fi; cat a") == {"src/a", "a"}
    assert places("cd src && cd lib && cat a /b") == {"src/lib/a", "/b"}
    assert places("bash -c 'cd src && cat a'") == {"src/a"}


def test_deep_and_long_scripts_raise_only_what_is_promised() -> None:
    for text in ("(" * 500 + "ls" + ")" * 500, "a && " * 400 + "b", "f() { " * 200 + "ls" + "; }" * 200):
        with pytest.raises(UnreadableScript):
            read_script(text, home="/h", folders=frozenset({"/w"}))
