"""The guard on commands. What a command means is told by a small table here; the parser has tests of its own."""

import os
import shlex
from pathlib import Path

import msgspec
import pytest

from bridle.base.fs.paths import session_folders
from bridle.protocol.events import CommandPart
from bridle.safety.guards import PathPolicy, guarded, rechecked
from bridle.shell.command_facts import Part, PathUse, Understanding
from tables import table

CLASSES = {"cat": "read_only", "ls": "read_only", "rm": "destructive", "dd": "destructive", "shred": "destructive",
           "touch": "writes", "mv": "writes", "curl": "network"}  # fmt: skip
ACCESS = {"rm": "delete", "shred": "delete", "mv": "delete", "touch": "write", "dd": "write"}


def understand(command: str, cwd: str) -> Understanding:
    """Reads `program path…` joined by `&&`; `?` stands for a path that is not known."""
    assert os.path.isabs(cwd)
    parts = tuple(_part(text.strip()) for text in command.split("&&"))
    refused = "it deletes your home folder" if "~" in command else None
    worst = "destructive" if any(part.command_class == "destructive" for part in parts) else "writes"
    return Understanding(
        command=command,
        shape="simple" if len(parts) == 1 else "compound",
        parts=parts,
        command_class="read_only" if all(part.command_class == "read_only" for part in parts) else worst,
        refused=refused,
        refused_rule="delete_home" if refused else None,
    )


def _part(text: str) -> Part:
    program, *arguments = shlex.split(text)
    urls = tuple(word for word in arguments if "://" in word)
    return Part(
        text=text,
        words=(program, *arguments),
        command_class=CLASSES.get(program, "executes"),
        does=f"runs {program}",
        uses=tuple(
            PathUse(
                path=None if word == "?" else word, access=ACCESS.get(program, "read"), pattern="*" in word
            )
            for word in arguments
            if word not in urls
        ),
        urls=urls,
    )


class Guard:
    def __init__(self, calls, workspace: Path, own: Path, **options) -> None:
        self.calls = calls
        folders = session_folders(str(workspace), options.pop("added", ()))
        self.policy = PathPolicy(folders=folders, protected=(str(own),), **{"scratch": (), **options})
        self.layer = guarded(self.policy, understand)
        self.recheck = rechecked(self.policy, understand)

    async def run(self, command: str, workdir: str = "."):
        call = self.calls.make("bash", risk="shell", path=workdir, command=command)
        return await self.layer(call, self.calls.proceed)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "key").write_text("k")
    return folder


@pytest.fixture
def guard(calls, workspace: Path, own: Path) -> Guard:
    return Guard(calls, workspace, own)


@pytest.mark.requirement("T3.6")
async def test_a_command_that_is_never_meant_is_blocked_with_the_part_that_does_it(guard) -> None:
    output = await guard.run("ls src && rm -rf ~")
    assert guard.calls.ran == []
    assert (output.outcome, output.reason) == ("blocked", "NeverAllowed")
    assert output.content == "never allowed: it deletes your home folder"
    assert msgspec.to_builtins(output.evidence) == {
        "source": "command_guard",
        "rule": "delete_home",
        "matched": "rm -rf ~",
        "preview": "ls src && rm -rf ~",
    }


async def test_a_command_that_only_reads_known_files_changes_nothing(guard) -> None:
    assert (await guard.run("cat src/a.py && ls")).ok
    call = guard.calls.ran[0]
    assert call.mutating is False
    assert call.parts == (
        CommandPart(text="cat src/a.py", command_class="read_only", does="runs cat"),
        CommandPart(text="ls", command_class="read_only", does="runs ls"),
    )
    assert [(use.access, use.value, use.resolved) for use in call.named] == [
        ("read", "src/a.py", str(Path(guard.policy.folders.workspace) / "src/a.py"))
    ]


@table("command", ["cat ?", "cat src/a.py && touch x", "make", "rm src/a.py"])
async def test_a_command_that_may_change_something_stays_one_that_does(guard, command: str) -> None:
    assert (await guard.run(command)).ok
    assert guard.calls.ran[0].mutating is True


TABLE = [  # command, outcome, rule
    ("rm -f src/a.py", "ok", None),
    ("rm -rf src", "ok", None),
    ("rm -rf .", "ok", None),
    ("rm -rf ..", "blocked", "outside"),
    ("rm -rf ../shop-old", "blocked", "outside"),
    ("rm -rf out/secret", "blocked", "outside"),
    ("rm -rf out/", "blocked", "outside"),
    ("rm out", "ok", None),  # the link itself
    ("mv out gone", "ok", None),
    ("shred out", "blocked", "outside"),  # follows links
    ("rm src/../../shop-old/secret", "blocked", "outside"),
    ("rm -rf out/*", "blocked", "outside"),
    ("rm *.py", "ok", None),
    ("dd ../shop-old/secret", "blocked", "outside"),
    ("touch ../shop-old/new", "ok", None),  # follows the mode
    ("cat ../shop-old/secret", "ok", None),
    ("cat ../own/key", "blocked", "protected"),
    ("touch ../own/key", "blocked", "protected"),
    ("rm ../own/*", "blocked", "protected"),
    ("cat ../own/*", "blocked", "protected"),
    ("cat mine/key", "blocked", "protected"),
    ("cat second-name", "blocked", "protected"),
    ("rm circle", "ok", None),
    ("touch .env", "blocked", "secret_files"),
    ("rm .env", "blocked", "secret_files"),
    ("rm .e*", "blocked", "secret_files"),
    ("touch harmless", "blocked", "secret_files"),
    ("touch .env.example", "ok", None),
    ("cat .env", "ok", None),  # the permissions ask
    ("cat /proc/1/environ", "blocked", "process"),
    ("cat /proc/1/task/1/environ", "blocked", "process"),
    ("cat /proc/1/status /proc/self/status", "ok", None),
    ("cat /dev/stdin /dev/fd/3 /dev/null", "ok", None),
    ("rm /dev/null", "blocked", "outside"),
    ("curl http://169.254.169.254/", "blocked", "address"),
    ("curl http://0xa9fea9fe/", "blocked", "address"),
    ("curl http://127.0.0.1:3000/ http://192.168.0.2/", "ok", None),
    ("cat ''", "blocked", "path"),
]


@pytest.mark.parametrize(("command", "outcome", "rule"), TABLE)
async def test_what_a_command_touches_decides(guard, workspace, own, command, outcome, rule) -> None:
    (workspace / "mine").symlink_to(own)
    (workspace / ".env").write_text("")
    (workspace / "harmless").symlink_to(".env")
    os.link(own / "key", workspace / "second-name")
    output = await guard.run(command)
    assert (output.outcome, output.evidence.rule if output.evidence else None) == (outcome, rule)
    assert len(guard.calls.ran) == (outcome == "ok")


async def test_what_is_blocked_is_said_in_one_sentence(guard) -> None:
    said = {
        "curl http://169.254.169.254/": "never allowed: link-local address",
        "rm -rf ../shop-old": (
            "never allowed: it deletes or destroys what is outside the workspace (../shop-old)"
        ),
        "touch .env": (
            ".env may hold secrets and is not written. Only a rule of your own that names it can allow that."
        ),
        "cat ../own/key": (
            "../own/key is not a path this session may use: Bridle keeps its own settings and records there."
        ),
    }
    assert {command: (await guard.run(command)).content for command in said} == said


async def test_paths_are_meant_from_where_the_command_starts(guard, workspace) -> None:
    (workspace / "src" / "away").symlink_to("../../shop-old")
    assert (await guard.run("rm -rf ../top.py", "src")).ok
    assert (await guard.run("rm -rf ../../shop-old", "src")).outcome == "blocked"
    assert (await guard.run("rm -rf away/x", "src")).outcome == "blocked"
    assert (await guard.run("rm -rf away/x")).ok


async def test_an_added_folder_is_the_sessions_too(calls, workspace, own) -> None:
    guard = Guard(calls, workspace, own, added=["../shop-old"])
    assert (await guard.run("rm -rf ../shop-old/secret")).ok
    assert (await guard.run("rm -rf ../own")).outcome == "blocked"


async def test_a_folder_that_holds_one_of_ours_is_not_destroyed(calls, workspace) -> None:
    (workspace / "deep" / "home").mkdir(parents=True)
    guard = Guard(calls, workspace, workspace / "deep" / "home")
    for command in ("rm -rf deep", "rm -rf .", "mv deep away"):
        output = await guard.run(command)
        assert (output.outcome, output.evidence.rule) == ("blocked", "protected"), command
    assert (await guard.run("ls deep")).ok


async def test_scratch_files_follow_the_mode_and_scratch_folders_that_are_there_do_not(
    calls, workspace, own, tmp_path
) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "folder").mkdir(parents=True)
    (scratch / "file").write_text("")
    (scratch / "away").symlink_to("..")
    guard = Guard(calls, workspace, own, scratch=(str(scratch),))
    for command in ("rm -f ../scratch/file", "rm -rf ../scratch/not-there-yet/x", "rm ../scratch/f*e"):
        assert (await guard.run(command)).ok, command
    for path in (
        "../scratch/folder",
        "../scratch",
        "../scratch/*",
        "../scratch/away/shop-old",
        "../scratch/..",
    ):
        output = await guard.run(f"rm -rf {path}")
        assert (output.outcome, output.evidence.rule) == ("blocked", "outside"), path


async def test_only_a_rule_of_the_persons_own_that_names_the_file_lets_a_secret_be_written(
    calls, workspace, own
) -> None:
    named = {str(workspace / ".env")}
    (workspace / "link.key").symlink_to(".env")
    guard = Guard(
        calls, workspace, own, named_by_user=lambda path, access: path in named and access == "write"
    )
    assert (await guard.run("touch .env")).ok
    assert (await guard.run("touch ./src/../.env")).ok
    assert (await guard.run("touch src/.env")).reason == "SecretFile"
    assert (await guard.run("touch link.key")).reason == "SecretFile"  # its own name is one too


async def test_a_command_is_looked_at_again_before_it_runs(guard, workspace, own) -> None:
    (workspace / "notes").write_text("")
    assert (await guard.run("cat notes")).ok
    call = guard.calls.ran[0]
    assert guard.recheck(call) is None
    (workspace / "notes").unlink()
    (workspace / "notes").symlink_to(workspace / "src" / "a.py")
    output = guard.recheck(call)
    assert (output.outcome, output.evidence.rule) == ("blocked", "moved")
    (workspace / "notes").unlink()
    (workspace / "notes").symlink_to(own / "key")
    output = guard.recheck(call)
    assert (output.outcome, output.evidence.rule) == ("blocked", "protected")


async def test_a_command_nobody_understands_is_blocked_when_understanding_breaks(calls, workspace) -> None:
    def broken(_command: str, _cwd: str) -> Understanding:
        raise RecursionError("too deep")

    policy = PathPolicy(folders=session_folders(str(workspace)))
    call = calls.make("bash", risk="shell", path=".", command="ls")
    output = await guarded(policy, broken)(call, calls.proceed)
    assert (output.outcome, output.reason, calls.ran) == ("blocked", "CheckFailed", [])
    assert rechecked(policy, broken)(call).reason == "CheckFailed"


async def test_without_a_parser_no_command_counts_as_one_that_only_reads(calls, workspace) -> None:
    policy = PathPolicy(folders=session_folders(str(workspace)))
    call = calls.make("bash", risk="shell", path=".", command="ls")
    assert (await guarded(policy)(call, calls.proceed)).ok
    assert (calls.ran[0].mutating, calls.ran[0].parts) == (True, ())
