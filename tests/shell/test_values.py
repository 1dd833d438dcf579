"""Constants: what a variable holds is known where it is certain, and nowhere else."""

from bridle.safety.call_risk import shown_parts
from bridle.shell.command_facts import ScriptContext
from bridle.shell.script_reader import read_script
from bridle.shell.understanding import understand
from tables import table


def last(text: str) -> tuple[str | None, ...]:
    """The words of the last command, as far as they are known."""
    script = read_script(text, home="/home/ana", folders=frozenset({"/w"}))
    return tuple(word.text for word in [c for c in script.commands if c.words][-1].words)


@table(
    ("script", "words"),
    [
        ("x=1; echo $x", ("echo", "1")),
        ("f=src/main.py; cat $f", ("cat", "src/main.py")),
        ("x='a b'; cat \"$x\"", ("cat", "a b")),
        ("x='a b'; cat $x", ("cat", "a", "b")),
        ("x=; cat $x y", ("cat", "y")),
        ('x=; cat "$x" y', ("cat", "", "y")),
        ("x=a; y=$x/b; cat ${y}.c", ("cat", "a/b.c")),
        ("x=a y=$x; cat $y", ("cat", "a")),
        ("x=a; x+=b; cat $x", ("cat", "ab")),
        ("x=a; cat ${x:-b}", ("cat", "a")),
        ('x=é; cat "$x"', ("cat", "é")),
        ("x=a && cat $x", ("cat", "a")),
        ("x=rm; $x f.txt", ("rm", "f.txt")),
        ("c='ls -l'; $c a", ("ls", "-l", "a")),
        ("export x=a; cat $x", ("cat", "a")),
        ("x=a; (x=b); cat $x", ("cat", "a")),
        ("x=a; x=b | cat; cat $x", ("cat", "a")),
        ("x=a; x=b & cat $x", ("cat", "a")),
        ("x=a; y=$(x=b); cat $x", ("cat", "a")),
        ("if true; then x=a; cat $x; fi", ("cat", "a")),
        ("x=a; for i in 1 2; do cat $x; done", ("cat", "a")),
        ("for f in a b; do cat $f; done", ("cat", "b")),
        ('for f in src/*.py; do cat "$f"; done', ("cat", "src/*.py")),
        ('d=src; for f in $d/*.py; do cat "$f"; done', ("cat", "src/*.py")),
        ("p='*.py'; cat $p", ("cat", "*.py")),
        ("n=5; [[ $n -gt 3 ]] && cat $n", ("cat", "5")),
        ("set -euo pipefail; x=a; cat $x", ("cat", "a")),
        ("x=a; command -v ls; cat $x", ("cat", "a")),
    ],
)  # fmt: skip
def test_what_is_certain_is_known(script: str, words: tuple[str | None, ...]) -> None:
    assert last(script) == words


@table(
    "before",
    [
        *("read x", "unset x", "x=$(ls)", "x=(b c)", "x[0]=b", "declare -n x=y", "printf -v x b", "eval x=b", ". ./f"),
        *("IFS=1", "let x=2", "(( x = 2 ))", ": ${x:=b}", ": $((x=2))", "[[ x=2 -eq 2 ]]", "[ -v 'a[x=2]' ]", "f"),
        *("time x=b", "command eval x=b", "builtin read x", "mapfile x", "getopts a x", "trap 'x=b' DEBUG", "$y"),
        *("true && x=b", "false || x=b", "if true; then x=b; fi", "case a in a) x=b;; esac"),
        "while x=b; do break; done",
        *("x+=(b)", "y=(${x:=b})", "y[x=2]=b", "y=(a b); x=b$y"),
        *("for x in b c; do :; done", "for i in 1; do x=b; break; x=a; done", "{ x=b; } > /no/where"),
        *("export $y", "readonly x", "set -f", "shopt -s lastpipe", "x=b ls", "local x=b", "wait -p x"),
        *("for i in 1; do f() { x=b; }; done", "alias ls=x=b", "source f", "time read x", "unset 'x[0]'"),
        "select x in b; do break; done",
    ],
)  # fmt: skip
def test_what_could_have_changed_is_not(before: str) -> None:
    assert last(f"f() {{ x=b; }}; x=a; {before}; cat $x") == ("cat", None)


@table(
    "script",
    [
        "cat $x",
        "x=a; f() { cat $x; }",
        "while cat $x; do x=a; done",
        "for i in 1 2; do cat $x; x=a; done",
        "x=a; for i in 1 2; do cat $x; x=b; done",
        "x=a; while eval y; do cat $x; done",
        "x=a; while true; do if cat $x; then eval y; fi; cat $x; done",
        "x=a; if true; then x=b; else true; fi; cat $x",
        "RANDOM=1; cat $RANDOM",
        "x='a\\b'; cat $x",
        "x=a; cat ${x:+b}",
        "x=a; cat ${x/a/b}",
        "x=a; cat ${!x}",
        "for f in $(ls); do cat $f; done",
        'for f in "$@"; do cat $f; done',
    ],
)
def test_and_what_nobody_said_is_not_either(script: str) -> None:
    assert None in last(script)


HERE = ScriptContext(cwd="/w", home="/home/ana", search_path="/usr/bin:/bin")


@table(
    "script",
    [
        "x=1; echo $x",
        "f=src/main.py; cat $f",
        "V=$(head -1 README.md); echo $V",
        'V=$(head -1 README.md); echo "version: $V"',
        'for f in src/*.py; do wc -l "$f"; done',
        "for f in src/*.py; do wc -l $f; done",
        'for d in src tests; do ls "$d"; done',
        "n=5; head -n $n README.md",
        "opts='-l -a'; ls $opts src",
        "total=0; echo $total",
        "a=sort; $a README.md",
    ],
)
def test_a_script_that_only_looks_may_have_variables(script: str) -> None:
    assert understand(script, HERE).read_only, understand(script, HERE).parts


@table(
    "script",
    [
        "x=touch; $x f",
        "x='-o out'; sort $x README.md",
        "for o in -o out; do sort $o README.md; done",
        'for f in *; do sort "$f"; done',
        "PATH=.; ls",
        "http_proxy=x; ls",
        "LD_PRELOAD=x; ls",
        "x=1 ls",
        "IFS=/; x=a/b; cat $x",
        "x=${y:=z}",
        "x=$(touch f)",
        "x=a; touch $x",
        "x=.; . $x/f",
        "[ * ]",
        "time cd /etc && rm passwd",
    ],
)  # fmt: skip
def test_and_one_that_does_more_is_seen_for_what_it_is(script: str) -> None:
    assert not understand(script, HERE).read_only


def test_a_cd_behind_a_keyword_moves_too() -> None:
    assert {use.path for use in understand("time cd /etc && cat a", HERE).parts[-1].uses} == {"/etc/a"}


def test_a_name_put_together_is_looked_for_among_the_workspaces_programs(tmp_path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ls").touch()
    where = ScriptContext(cwd=str(tmp_path), home="/home/ana", search_path=f"{programs}:/usr/bin")
    assert not understand("a=l; b=s; $a$b", where).read_only
    assert not understand("a=l; b=s; nice $a$b", where).read_only
    assert understand("a=c; b=at; $a$b README.md", where).read_only


def test_a_loop_is_read_with_each_of_its_values() -> None:
    found = understand("for c in ls touch; do $c x; done", HERE)
    assert [part.words for part in found.parts] == [("ls", "x"), ("touch", "x")]


def test_what_is_the_same_in_each_turn_is_shown_once() -> None:
    shown = shown_parts(understand("for i in 1 2 3; do git diff; echo $i; done", HERE))
    assert [part.text for part in shown] == ["git diff", "echo $i"]


def test_many_loops_and_many_values_take_no_time() -> None:
    words = " ".join("abcdefgh")
    nested = (
        "x=1; " + f"for i in {words}; do for j in {words}; do x=2; echo $i $j $x; " * 6 + "done; done; " * 6
    )
    understand(nested, HERE)
    understand("; ".join(f"a{n}={n}" for n in range(5_000)), HERE)
    understand(f"for i in {words}; do for j in {words}; do echo $i $j {'y' * 30_000}; done; done", HERE)
