"""The profile for macOS, as text: whatever a path is called, it stays a path."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.sandbox.adapters.adapter import CannotConfine
from bridle.sandbox.adapters.sandbox_exec import PROGRAM, SandboxExec, profile
from bridle.sandbox.confinement import Confinement

TOKEN = re.compile(r'#?"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+')


def forms(text: str) -> list:
    """The profile as nested lists; fails on anything that is not balanced."""
    stack: list[list] = [[]]
    end = 0
    for token in TOKEN.finditer(text):
        assert not text[end : token.start()].strip(), "something that is no token"
        end = token.end()
        if token[0] == "(":
            stack.append([])
        elif token[0] == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token[0])
    assert not text[end:].strip()
    assert len(stack) == 1
    return stack[0]


def string(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def decision(rules: list, operation: str, path: str) -> str:
    """What the profile says of an operation on a path: the last rule that fits."""
    verdict = ""
    for rule in rules:
        names = [name for name in rule[1:] if isinstance(name, str)]
        if rule[0] not in {"allow", "deny"} or not any(_fits(name, operation) for name in names):
            continue
        filters = [part for part in rule[1:] if isinstance(part, list)]
        if not filters or any(_matches(part, path) for part in filters):
            verdict = rule[0]
    return verdict


def _fits(name: str, operation: str) -> bool:
    return (
        name == "default" or operation.startswith(name.removesuffix("*"))
        if name.endswith(("*", "default"))
        else name == operation
    )


def _matches(part: list, path: str) -> bool:
    kind, value = part[0], part[1]
    if not isinstance(value, str) or kind not in {"literal", "subpath"}:
        return False
    named = re.sub(r"\\(.)", r"\1", value[1:-1])
    return path == named or (kind == "subpath" and path.startswith(named.rstrip("/") + "/"))


CONFINEMENT = Confinement(
    writable=("/Users/p/shop", "/Users/p/.config/gh/work"),
    read_only=("/Users/p/shop/AGENTS.md", "/Users/p/shop/.git/hooks"),
    absent=("/Users/p/shop/.vscode",),
    held=("/Users/p/shop/.git",),
    hidden=("/Users/p/.ssh", "/Users/p/.config/gh"),
    temporary=("/private/tmp",),
    scratch="/Users/p/state/scratch",
    network="deny",
)


@pytest.mark.parametrize(
    ("operation", "path", "verdict"),
    [
        ("file-write-create", "/Users/p/shop/src/a", "allow"),
        ("file-write-create", "/Users/p/other", "deny"),
        ("file-write-data", "/Users/p/shop/AGENTS.md", "deny"),
        ("file-write-unlink", "/Users/p/shop/AGENTS.md", "deny"),
        ("file-write-create", "/Users/p/shop/.vscode/tasks.json", "deny"),
        ("file-write-create", "/Users/p/shop/.git/hooks/pre-commit", "deny"),
        ("file-write-create", "/Users/p/shop/.git/index.lock", "allow"),
        ("file-write-unlink", "/Users/p/shop/.git", "deny"),
        ("file-read-data", "/Users/p/.ssh/id_test", "deny"),
        ("file-read-data", "/Users/p/.config/gh/hosts.yml", "deny"),
        ("file-read-data", "/Users/p/.config/gh/work/a", "allow"),
        ("file-read-data", "/usr/lib/x", "allow"),
        ("file-read-data", "/private/tmp/host", "deny"),
        ("file-write-create", "/Users/p/state/scratch/x", "allow"),
        ("file-write-data", "/dev/null", "allow"),
        ("network-outbound", "", "deny"),
    ],
)
def test_the_last_rule_that_fits_decides(operation: str, path: str, verdict: str) -> None:
    assert decision(forms(profile(CONFINEMENT)), operation, path) == verdict


def test_the_network_can_be_inherited_but_not_the_sockets_of_other_programs() -> None:
    text = profile(Confinement(emptied=("/private/var/run",), hidden=("/Users/p/.ssh",)))
    assert "(deny network*)" not in text
    assert '(deny network-outbound (remote unix-socket (subpath "/private/var/run")))' in text


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@given(NAMES, NAMES)
def test_no_name_of_a_folder_becomes_a_rule(name: str, other: str) -> None:
    confinement = Confinement(writable=(f"/{name}",), hidden=(f"/{other}",))
    try:
        read = forms(profile(confinement))
    except CannotConfine:
        assert any(ord(character) < 32 or ord(character) == 127 for character in name + other)
        return
    plain = forms(profile(Confinement(writable=("/a",), hidden=("/b",))))
    assert len(read) == len(plain)
    assert ["allow", "file-write*", ["subpath", string(f"/{name}")]] in read
    assert ["deny", "file-read*", ["subpath", string(f"/{other}")]] in read


@pytest.mark.parametrize(
    "path", ['/a") (allow default) ("', "/a\\", '/a\\") (allow file-write*) ("', "/a ) ;"]
)
def test_names_that_look_like_rules(path: str) -> None:
    read = forms(profile(Confinement(writable=(path,))))
    assert decision(read, "file-write-create", "/elsewhere") == "deny"
    assert decision(read, "file-write-create", f"{path}/x") == "allow"


@pytest.mark.parametrize("path", ["/a\n(allow default)", "relative", "/\udcff"])
def test_names_that_cannot_be_written_are_refused(path: str) -> None:
    with pytest.raises(CannotConfine):
        profile(Confinement(writable=(path,)))


def test_the_command_follows_the_profile_unchanged(tmp_path) -> None:
    confinement = Confinement(writable=("/w",), scratch=str(tmp_path / "scratch"))
    launch = SandboxExec().confined(["/bin/echo", "-p", "$x"], cwd="/w", confinement=confinement)
    assert launch.argv == (PROGRAM, "-p", profile(confinement), "/bin/echo", "-p", "$x")
    assert SandboxExec().variables(confinement)["TMPDIR"] == str(tmp_path / "scratch")
