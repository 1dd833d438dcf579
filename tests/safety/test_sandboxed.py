"""How the commands of a call may run: the policy of the session, narrowed to what the call is known to need."""

import msgspec

from bridle.engine.ports import SpawnPolicy
from bridle.engine.tools import Subject
from bridle.protocol.events import CommandPart
from bridle.safety.sandboxed import sandboxed
from bridle.shell.command_facts import ScriptContext
from bridle.shell.understanding import understand
from tables import table

POLICY = SpawnPolicy(mode="workspace-write", workspace="/code/shop", writable=("/code/lib",))


class Args(msgspec.Struct, frozen=True):
    command: str = ""
    escalate: str = ""


def read(command: str, cwd: str):
    return understand(command, ScriptContext(cwd=cwd, home="/home/ann"))


async def policy_of(calls, call, policy: SpawnPolicy = POLICY) -> SpawnPolicy:
    await sandboxed(policy, read)(call, calls.proceed)
    return calls.ran[-1].policy


def running(calls, command: str, **fields: object):
    """A call of bash, as it comes from the guards."""
    parts = tuple(
        CommandPart(text=part.text, command_class=part.command_class)
        for part in read(command, POLICY.workspace).parts
    )
    subjects = (Subject(kind="command", access="run", value=command),)
    args = Args(command=command)
    return msgspec.structs.replace(
        calls.make(), **{"args": args, "parts": parts, "subjects": subjects, **fields}
    )


async def test_a_call_that_changes_something_gets_the_policy_of_the_session(calls) -> None:
    assert await policy_of(calls, running(calls, "npm test")) == POLICY


async def test_a_call_that_is_proven_to_only_read_can_only_read(calls) -> None:
    given = await policy_of(calls, running(calls, "git log", mutating=False))
    assert given == SpawnPolicy(mode="read-only", workspace="/code/shop")


async def test_where_the_sandbox_is_off_a_reading_call_is_not_held_either(calls) -> None:
    off = msgspec.structs.replace(POLICY, mode="off")
    assert await policy_of(calls, running(calls, "git log", mutating=False), off) == off


async def test_a_call_that_a_person_let_out_runs_without_a_border(calls) -> None:
    call = running(calls, "npm test", args=Args(command="npm test", escalate="it needs the registry"))
    given = await policy_of(calls, call)
    assert given.mode == "off"


async def test_where_a_sandbox_is_required_nothing_is_let_out(calls) -> None:
    call = running(calls, "npm test", args=Args(command="npm test", escalate="please"))
    required = msgspec.structs.replace(POLICY, required=True)
    result = await sandboxed(required, read)(call, calls.proceed)
    assert (result.outcome, result.reason, calls.ran) == ("denied", "NoWayOut", [])


@table(
    ("command", "open_"),
    [
        ("git remote add origin https://example.org/x.git", True),
        ("git branch topic", True),
        ("git checkout -b topic origin/topic", True),
        ("git push -u origin topic", True),
        ("git status && git branch topic", True),
        ("git add . && git commit -m x", False),
        ("git branch topic && npm test", False),
        ("git branch topic; ./git-helper", False),
        ('git branch "$(./evil)"', False),
        ("bash -c 'git branch x'", True),
        ("bash -c 'git branch x; make'", False),
        ("./git branch x", False),
        ("npm test", False),
        ("git switch -c edit", True),
        ("git submodule update --init", True),
        # what they start would find the settings open too
        ("GIT_EDITOR=./x git branch --edit-description", False),
        ("git branch --edit-desc", False),
        ("PATH=.:$PATH git push", False),
        ("env LD_PRELOAD=./x.so git push", False),
        ("git submodule foreach ./x", False),
        ("git push --receive-pack=./x . main", False),
        ("git push --exe ./x . main", False),
        ("git clone -u ./x . y", False),
        ("git clone --upl=./x . y", False),
        ("git clone ext::./x y", False),
        ("git init --template=t .", False),
        ("git config --edit", False),
        ("git branch x > .git/config", False),
    ],
)
async def test_gits_settings_are_open_only_for_commands_about_them(calls, command: str, open_: bool) -> None:
    given = await policy_of(calls, running(calls, command))
    assert given.git_config is open_


@table(
    ("command", "open_"),
    [
        ("git init", True),
        ("git init -q . && git add -A && git commit -qm first", True),
        ("git clone https://example.org/x .", True),
        ("cargo init --name x", True),
        ("npm test", False),
        ("./git init", False),
        ("git status", False),
    ],
)
async def test_the_workspace_becomes_a_repository_only_by_commands_that_make_one(
    calls, command: str, open_: bool
) -> None:
    given = await policy_of(calls, running(calls, command))
    assert given.new_repository is open_
