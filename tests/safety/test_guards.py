"""The path guard as a layer, and the second look just before a call runs."""

import os

import msgspec
import pytest

from bridle.base.fs.paths import SessionFolders, session_folders
from bridle.engine.tools import Subject, ToolCall
from bridle.safety.guards import PathPolicy, guarded, rechecked

pytestmark = pytest.mark.requirement("T3.1", "T3.2", "H10.7", "T5.1")


def policy(workspace, **options) -> PathPolicy:
    return PathPolicy(folders=session_folders(str(workspace)), **options)


async def test_a_call_that_passes_knows_where_its_paths_are(calls, workspace) -> None:
    output = await guarded(policy(workspace))(calls.make(path="in/a.py"), calls.proceed)
    assert output.ok
    assert [(subject.value, subject.resolved) for subject in calls.ran[0].subjects] == [
        ("in/a.py", str(workspace / "src/a.py"))
    ]


@pytest.mark.requirement("T3.6", "H10.6", "H10.8", "T5.5")
async def test_a_write_outside_is_blocked_with_evidence(calls, workspace, tmp_path) -> None:
    call = calls.make("write_file", risk="write", access="write", path="out/secret")
    output = await guarded(policy(workspace))(call, calls.proceed)
    assert calls.ran == []
    assert (output.outcome, output.reason) == ("blocked", "PathOutsideWorkspace")
    assert output.content == "out/secret is outside the workspace and cannot be written."
    assert msgspec.to_builtins(output.evidence) == {
        "source": "path_guard",
        "rule": "workspace",
        "matched": str(tmp_path / "shop-old" / "secret"),
        "preview": "out/secret",
    }


TABLE = [  # mode, access, path, outcome
    ("workspace", "read", "src/a.py", "ok"),
    ("workspace", "read", "/etc/passwd", "ok"),
    ("workspace", "write", "src/new.py", "ok"),
    ("workspace", "write", "/etc/passwd", "blocked"),
    ("workspace", "write", "../shop-old/secret", "blocked"),
    ("workspace", "write", "dangling", "blocked"),
    ("allowlist", "read", "src/a.py", "ok"),
    ("allowlist", "write", "src/new.py", "ok"),
    ("allowlist", "read", "top.py", "blocked"),
    ("allowlist", "read", "/etc/passwd", "blocked"),
    ("allowlist", "write", "out/secret", "blocked"),
    ("off", "write", "out/new", "ok"),
    ("off", "read", "/etc/passwd", "ok"),
    *(
        (mode, access, "own/x", "blocked")
        for mode in ("workspace", "allowlist", "off")
        for access in ("read", "write")
    ),
    *((mode, "read", "/proc/self/environ", "blocked") for mode in ("workspace", "off")),
    *((mode, "read", "", "blocked") for mode in ("workspace", "allowlist", "off")),
]


@pytest.mark.parametrize(("mode", "access", "path", "outcome"), TABLE)
async def test_the_policy_decides_by_place_and_access(calls, workspace, mode, access, path, outcome) -> None:
    (workspace / "own").mkdir()
    layer = guarded(
        policy(workspace, mode=mode, allowed=(str(workspace / "src"),), protected=(str(workspace / "own"),))
    )
    output = await layer(calls.make(access=access, path=path), calls.proceed)
    assert output.outcome == outcome
    assert len(calls.ran) == (outcome == "ok")


async def test_an_added_folder_may_be_written(calls, workspace) -> None:
    folders = session_folders(str(workspace), ["../shop-old"])
    call = calls.make("write_file", access="write", path="../shop-old/new")
    assert (await guarded(PathPolicy(folders=folders))(call, calls.proceed)).ok


async def test_our_own_folder_is_closed_under_every_name_and_before_it_exists(
    calls, workspace, tmp_path
) -> None:
    (workspace / "alias").symlink_to(tmp_path / "config")
    layer = guarded(policy(workspace, mode="off", protected=(str(tmp_path / "config"),)))
    for path in ("alias/x", "../config/x", str(tmp_path / "config" / "deep" / "x")):
        output = await layer(calls.make(access="write", path=path), calls.proceed)
        assert (output.outcome, output.evidence.rule) == ("blocked", "protected")


@pytest.mark.requirement("D9.6")
async def test_a_command_starts_inside_although_reading_outside_is_not_blocked(calls, workspace) -> None:
    layer = guarded(policy(workspace))
    outside = await layer(calls.make("bash", risk="shell", path="/etc", command="ls"), calls.proceed)
    assert (outside.outcome, outside.reason) == ("blocked", "PathNotAllowed")
    assert (await layer(calls.make("bash", risk="shell", path="src", command="ls"), calls.proceed)).ok


@pytest.mark.requirement("D10.9", "D10.2")
async def test_a_guard_that_breaks_blocks(calls, workspace) -> None:
    broken = PathPolicy(folders=SessionFolders(workspace=None))
    output = await guarded(broken)(calls.make(path="src/a.py"), calls.proceed)
    assert (output.outcome, output.reason, calls.ran) == ("blocked", "CheckFailed", [])
    again = rechecked(broken)(calls.make(path="src/a.py"))
    assert again is not None
    assert again.outcome == "blocked"


async def test_what_breaks_behind_the_guard_is_not_its_business(calls, workspace) -> None:
    async def proceed(_call):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await guarded(policy(workspace))(calls.make(path="src/a.py"), proceed)


async def test_a_path_that_leads_elsewhere_at_the_second_look_is_blocked(calls, workspace) -> None:
    layer, recheck = guarded(policy(workspace)), rechecked(policy(workspace))
    await layer(calls.make(path="in/a.py"), calls.proceed)
    assert recheck(calls.ran[0]) is None
    os.unlink(workspace / "in")
    os.symlink("/etc", workspace / "in")
    output = recheck(calls.ran[0])
    assert output is not None
    assert (output.outcome, output.evidence.rule) == ("blocked", "moved")


async def test_a_call_that_was_never_guarded_does_not_pass_the_second_look(calls, workspace) -> None:
    assert rechecked(policy(workspace))(calls.make(path="src/a.py")) is not None


async def test_a_strange_name_is_shown_short_and_encodable(calls, workspace) -> None:
    output = await guarded(policy(workspace))(calls.make(path="\ud800" + "x" * 5000), calls.proceed)
    assert output.outcome == "blocked"
    assert len(msgspec.json.encode(output.evidence)) < 1000
    assert len(output.content.encode()) < 500


async def test_protected_folders_stay_closed_inside_and_beside_the_workspace(calls, workspace) -> None:
    inside, beside = workspace / "home", workspace.parent / "state"
    inside.mkdir()
    beside.mkdir()
    (workspace / "link").symlink_to(beside)
    policy = PathPolicy(
        folders=session_folders(str(workspace)),
        protected=(str(inside), str(beside), str(workspace / "later")),
    )
    guard = guarded(policy)
    for path in ("home/x", "link/x", "../state/x", "later/x", "home"):
        output = await guard(calls.make("read_file", risk="read", access="read", path=path), calls.proceed)
        assert (output.outcome, output.evidence.rule) == ("blocked", "protected"), path
    passed = await guard(calls.make("read_file", risk="read", access="read", path="src/x"), calls.proceed)
    assert passed.ok


@pytest.mark.requirement("D10.4", "D9.14")
@pytest.mark.parametrize("path", [".env", "src/.env.local", "tls/server.key", "harmless.txt", "in/.ENV"])
async def test_a_file_that_may_hold_secrets_is_not_written(calls, workspace, path: str) -> None:
    (workspace / "harmless.txt").symlink_to(".env")
    call = calls.make("write_file", risk="write", access="write", path=path)
    output = await guarded(policy(workspace))(call, calls.proceed)
    assert (output.outcome, output.reason, calls.ran) == ("blocked", "SecretFile", [])
    assert output.content == (
        f"{path} may hold secrets and is not written. Only a rule of your own that names it can allow that."
    )
    assert (output.evidence.source, output.evidence.rule) == ("path_guard", "secret_files")
    assert (
        await guarded(policy(workspace))(calls.make(path=path), calls.proceed)
    ).ok  # reading is asked about


async def test_a_secret_file_may_be_written_if_the_persons_own_rule_names_it(calls, workspace) -> None:
    named = policy(
        workspace, named_by_user=lambda path, access: (path, access) == (f"{workspace}/.env", "write")
    )
    call = calls.make("write_file", risk="write", access="write", path=".env")
    assert (await guarded(named)(call, calls.proceed)).ok
    other = calls.make("write_file", risk="write", access="write", path="src/.env")
    assert (await guarded(named)(other, calls.proceed)).reason == "SecretFile"
    listed = policy(workspace, secret_files=("*.txt",))
    assert (await guarded(listed)(call, calls.proceed)).ok


async def test_a_second_name_of_a_file_of_ours_is_closed_too(calls, workspace, tmp_path) -> None:
    deep = tmp_path / "own" / "deep"
    deep.mkdir(parents=True)
    (deep / "key").write_text("k")
    os.link(deep / "key", workspace / "notes.txt")
    os.link(workspace / "src/a.py", workspace / "twin.py")
    layer = guarded(policy(workspace, protected=(str(tmp_path / "own"), str(tmp_path / "missing"))))
    for access in ("read", "write"):
        output = await layer(calls.make(access=access, path="notes.txt"), calls.proceed)
        assert (output.outcome, output.evidence.rule) == ("blocked", "protected")
        assert (await layer(calls.make(access=access, path="twin.py"), calls.proceed)).ok


async def test_the_inside_of_processes_is_closed_under_every_name(calls, workspace) -> None:
    reading, writing = os.pipe()
    (workspace / "link").symlink_to(f"/dev/fd/{reading}")
    layer = guarded(policy(workspace, mode="off"))
    try:
        for path in ("/proc/self/environ", "/proc/thread-self/mem", f"/proc/{os.getpid()}", "link"):
            output = await layer(calls.make(path=path), calls.proceed)
            assert (output.outcome, output.evidence.rule) == ("blocked", "process"), path
    finally:
        os.close(reading)
        os.close(writing)


def fetching(calls, url: str) -> ToolCall:
    call = calls.make("web_fetch", risk="network")
    subject = Subject(kind="url", access="fetch", value=url)
    tool = msgspec.structs.replace(call.tool, subjects=lambda _args: (subject,))
    return msgspec.structs.replace(call, tool=tool)


@pytest.mark.requirement("T3.6")
async def test_an_address_nobody_may_be_sent_to_is_blocked_with_evidence(calls, workspace) -> None:
    layer = guarded(policy(workspace))
    output = await layer(fetching(calls, "http://169.254.169.254/x"), calls.proceed)
    assert (output.outcome, output.reason) == ("blocked", "NeverAllowed")
    assert output.content == "never allowed: link-local address"
    assert msgspec.to_builtins(output.evidence) == {
        "source": "address_guard",
        "rule": "address",
        "matched": "link-local address",
        "preview": "http://169.254.169.254/x",
    }
    password = "x" * 12
    output = await layer(fetching(calls, f"https://me:{password}@example.com/"), calls.proceed)
    assert output.content == "never allowed: credentials in the address"
    assert output.evidence.preview == "https://example.com/"
    assert calls.ran == []
    assert (await layer(fetching(calls, "https://example.com/"), calls.proceed)).ok
    assert rechecked(policy(workspace))(calls.ran[0]) is None
