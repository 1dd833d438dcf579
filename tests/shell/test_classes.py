"""How bad a command can be, what it touches, and what people are told about it."""

import pytest

from bridle.shell.command_facts import SEVERITY, Part, PathUse, ScriptContext
from bridle.shell.understanding import understand
from tables import table

QUIET = [
    "ls -la src",
    "cat a.py | head -20",
    "grep -rn 'a b' src",
    "rg -n --glob '*.py' x src",
    "find . -name '*.py' -not -path './x/*'",
    "find . -type f -exec wc -l {} +",
    "sort -k2 a | uniq -c | sort -rn",
    "sed -n '1,20p' a.py",
    "sed -e 's/a/b/g' -e '/x/d' a",
    "awk -F: '$3 > 100 {print $1}' a",
    "jq '.a[] | .b' a.json",
    "tar tzf a.tgz",
    "date +%s",
    "env",
    "git --no-pager log --oneline -5",
    "npm ls --depth=0",
    "python3 --version",
    "docker ps -a",
    "timeout 5 nice -n 3 ls",
    "env LC_ALL=C sort a",
    "LC_ALL=C GIT_PAGER=cat git log",
    "find src | xargs grep x",
    "bash -c 'ls | wc -l'",
    "command -v git",
    "[ -f a ] && [[ -n $x ]]",
    'for f in *.py; do wc -l "$f"; done',
    "ls * 2>/dev/null",
    "diff <(sort a) <(sort b)",
]  # fmt: skip


@pytest.mark.requirement("T2.16")
@table("command", QUIET)
def test_what_only_looks_is_proven_to_only_look(command: str, read) -> None:
    assert read(command).command_class == "read_only", read(command)


@pytest.mark.requirement("T2.16")
@table(
    ("command", "command_class"),
    [
        ("touch x", "writes"),
        ("ls > x", "writes"),
        ("sort -o x y", "writes"),
        ("sed -i s/a/b/ x", "writes"),
        ("uniq a b", "writes"),
        ("git log --output=x", "writes"),
        ("curl https://example.org", "network"),
        ("git fetch", "network"),
        ("echo x > /dev/tcp/example.org/80", "network"),
        ("npm test", "executes"),
        ("./ls", "executes"),
        ("unknown", "executes"),
        ("sudo ls", "executes"),
        ("rg --pre sh x", "executes"),
        ("sort *", "executes"),
        ("FOO=1 ls", "executes"),
        ("export PATH=.", "executes"),
        ("ls() { :; }; ls", "executes"),
        ("echo ${x:=y}", "executes"),
        ("sed 's/a/b/e' x", "executes"),
        ("awk 'BEGIN{system(\"x\")}'", "executes"),
        ("git -c a.b=c status", "executes"),
        ("git unknown", "executes"),
        ("ls --not-an-option", "executes"),
        ("sort --comp=sh x", "executes"),
        ("test -v 'a[$(touch x)]'", "executes"),
        ("[[ 'a[$(touch x)]' -eq 0 ]]", "executes"),
        ("test $x", "executes"),
        ("printf -v x y", "executes"),
        ("read PATH", "executes"),
        ("date -s now", "executes"),
        ("$x", "executes"),
        ("find . -name *", "executes"),
        ("rm x", "destructive"),
        ("find . -delete", "destructive"),
        ("git push --force", "destructive"),
        ("ls | xargs rm", "destructive"),
        ('bash -c "$x"', "unparseable"),
        ('eval "$x"', "unparseable"),
        ("pwsh -EncodedCommand aQBlAHgA", "unparseable"),
    ],
)  # fmt: skip
def test_a_command_is_as_bad_as_the_worst_in_it(command: str, command_class: str, read) -> None:
    assert read(command).command_class == command_class
    for around in ("ls; {}", "ls | {}", "ls $({})", "if true; then {}; fi", "{} && ls"):
        wrapped = read(around.format(command))
        assert SEVERITY.index(wrapped.command_class) >= SEVERITY.index(read(command).command_class)


def test_wrappers_are_taken_off_and_the_command_inside_is_judged(read) -> None:
    for wrapper in (
        *(
            "env",
            "env -i",
            "nice",
            "nohup",
            "timeout 5",
            "time",
            "stdbuf -oL",
            "command",
            "exec",
            "xargs",
            "setsid",
        ),
        *("ionice -c 3", "sudo -u x", "busybox", "env -u X timeout -k 1 5 nice -n 3"),
    ):
        part = read(f"{wrapper} touch x").parts[0]
        assert part.words[:2] == ("touch", "x"), wrapper
        assert part.command_class in ("writes", "executes")
    assert [part.words for part in read("bash -c 'cd x; touch y'").parts] == [("cd", "x"), ("touch", "y")]
    assert [part.words for part in read("eval touch x").parts] == [("touch", "x")]
    assert read("env -S 'touch x'").parts[0].words == ("touch", "x")


@table(
    ("command", "uses"),
    [
        ("cat a 'b c' ~/d", [("a", "read"), ("b c", "read"), ("/home/ana/d", "read")]),
        ("grep x a", [("a", "read")]),
        ("grep -e x a", [("a", "read")]),
        ("grep -f p a", [("p", "read"), ("a", "read")]),
        ("sort -o a b", [("a", "write"), ("b", "read")]),
        ("ls < a > b", [("a", "read"), ("b", "write")]),
        ("cp a b c", [("a", "read"), ("b", "read"), ("c", "write")]),
        ("rm a b", [("a", "delete"), ("b", "delete")]),
        ("git show HEAD:.env", [(".env", "read"), ("HEAD:.env", "read")]),
        ("git diff /etc/passwd a", [("/etc/passwd", "read"), ("a", "read")]),
        ("sh x.sh", [("x.sh", "run")]),
        ("./x.sh", [("./x.sh", "run")]),
        ("cat $x", [(None, "read")]),
        ("cat a >/dev/null 2>&1", [("a", "read")]),
    ],
)
def test_every_path_a_command_names_is_noted(command: str, uses: list[tuple[str | None, str]], read) -> None:
    assert [(use.path, use.access) for use in read(command).parts[0].uses] == uses


def test_a_wildcard_is_noted_as_one(read) -> None:
    assert read("cat src/*.py").parts[0].uses == (PathUse(path="src/*.py", access="read", pattern=True),)


@table(
    ("command", "does"),
    [
        ("rm -rf build", "deletes build/"),
        ("npm run build", "runs a script from package.json"),
        ("cat a > out.txt", "writes out.txt"),
        ("curl https://u:p@example.org/x", "connects to example.org"),
        ("cat src/a", "reads src/a"),
        ("git push", "pushes to a remote"),
        ("git commit -m x", "makes a commit"),
        ("pytest -q", "runs code from the workspace"),
        ("python3 a.py", "runs a.py"),
        ("make test", "runs a recipe from the Makefile"),
    ],
)
def test_people_are_told_in_a_few_words(command: str, does: str, read) -> None:
    assert read(command).parts[0].does == does


@pytest.mark.requirement("P21")
@table(
    ("command", "key"),
    [
        ("npm test -- --watch=no", "npm test"),
        ("git status -s", "git status"),
        ("cargo build --release", "cargo build"),
        ("ls -la", "ls"),
        ("pytest -x", "pytest"),
        ("npm run x", "npm run x"),
        *((command, None) for command in (
            "npm test; ls", "npm test | cat", "npm test $(ls)", "npm test > f", "FOO=1 npm test", "npm test $x",
            "frobnicate build now", "rm x", "sudo ls", "env ls", "bash x", "python3 x", "node x", "ssh x", "xargs ls",
            "eval ls",
            "git -C x status", "git push", "git reset --hard", "git config a b", "./npm test", "find .",
            "frobnicate --x", "git foo",
        )),
        ("git fetch --upload-pa=./x .", None),
        ("git clone --upl ./x . y", None),
        ("git rebase --exe ./x main", None),
        ("git rebase -ix./x main", None),
    ],
)  # fmt: skip
def test_only_a_plain_command_has_a_key_for_any_arguments(command: str, key: str | None, read) -> None:
    parts: tuple[Part, ...] = read(command).parts
    assert parts[0].key == key
    if len(parts) > 1:
        assert {part.key for part in parts} == {None}


@table("search_path", [":/usr/bin", "/usr/bin:", "bin:/usr/bin", "/usr/bin:."])
def test_nothing_is_proven_where_the_folder_brings_programs(search_path: str) -> None:
    where = ScriptContext(cwd="/w", home="/home/ana", search_path=search_path)
    assert understand("ls", where).command_class == "executes"
    assert understand("echo x", where).command_class == "read_only"
    assert understand("/bin/ls", where).command_class == "read_only"
