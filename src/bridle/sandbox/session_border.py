"""The border around the commands of a session: who holds it here, what it lets through, what is said of it."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from bridle.base.fs.other_projects import OtherProjects
from bridle.base.fs.paths import SessionFolders
from bridle.base.process.escapees import end_left_behind
from bridle.base.process.processes import Processes
from bridle.base.text.terminal_text import visible
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.errors import sentence
from bridle.protocol.events import Degraded, Notice
from bridle.sandbox.adapters.adapter_choice import GAPS, Chooser
from bridle.sandbox.confinement import HostContext
from bridle.sandbox.plain_spawn import OWN_NETWORK, UNCONFINED
from bridle.sandbox.sandbox_settings import SandboxSettings
from bridle.sandbox.sandbox_spawn import SETTLE_S, ClaimedSpawn, SandboxSpawn

if TYPE_CHECKING:
    from bridle.sandbox.policy_files.policy_check import Quarantined


_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class OwnFolders(Protocol):
    """Where Bridle has its own files."""

    @property
    def state(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def cache(self) -> str: ...
    @property
    def all(self) -> tuple[str, ...]: ...


def machine_spawn(
    processes: Processes, *, where: OwnFolders, home: str, env: Mapping[str, str]
) -> SandboxSpawn:
    """The `Spawn` of this process. Nothing is looked for before somebody asks what holds commands here."""
    chooser = Chooser(processes, state=where.state)

    @functools.cache
    def others() -> OtherProjects:
        return OtherProjects(home)

    return SandboxSpawn(
        processes,
        place=lambda: this_place(where, env, home=home, caches=where.cache, others=others()),
        choose=chooser.adapter,
        known=chooser.known,
        failed=chooser.drop,
        lists=_lists(where),
    )


def claimed_spawn(spawn: SandboxSpawn, told: str, emit: Callable[[Degraded], object]) -> ClaimedSpawn:
    """The `Spawn` of a session that says `told` holds its commands. Less than that is an event before it is so."""

    def weaker(holds: str, before: str) -> None:
        if holds == UNCONFINED:
            emit(Degraded(what="sandbox", reason="NoSandbox", message=sentence("NoSandbox", {})))
            return
        gaps = f" There, {GAPS[holds]}." if holds in GAPS else ""
        data = {"told": before, "sandbox": holds, "gaps": gaps}
        emit(Degraded(what="sandbox", reason="SandboxWeaker", message=sentence("SandboxWeaker", data)))

    return ClaimedSpawn(spawn, told, weaker=weaker)


def opening_words(policy: SpawnPolicy, held_by: str) -> Iterator[Degraded | Notice]:
    """What is said at the start of a session about what holds its commands; nothing where nothing is missing."""
    if policy.mode == "off":
        return
    if held_by == UNCONFINED:
        yield Degraded(what="sandbox", reason="NoSandbox", message=sentence("NoSandbox", {}))
    elif not held_by:
        data = {"seconds": f"{SETTLE_S:g}"}
        yield Degraded(what="sandbox", reason="SandboxNotKnown", message=sentence("SandboxNotKnown", data))
    elif held_by in GAPS:
        data = {"sandbox": held_by, "gaps": GAPS[held_by]}
        yield Notice(reason="SandboxGaps", message=sentence("SandboxGaps", data), data=data)
    if is_unfiltered(policy, held_by):
        message = sentence("NoNetworkFilter", {})
        yield Degraded(what="network", reason="NoNetworkFilter", message=message)
    elif (problem := foreign_folder(policy, held_by)) is not None:
        yield Notice(reason="ForeignFolder", message=problem)


def this_place(
    where: OwnFolders,
    env: Mapping[str, str],
    *,
    home: str,
    caches: str = "",
    others: OtherProjects | None = None,
) -> HostContext:
    """The machine and the person, for the sandbox. Caches that are named are made with the first command."""
    return HostContext(
        home=home, own=where.all, caches=caches, records=where.data, env=dict(env), others=others
    )


def session_policy(
    settings: SandboxSettings,
    here: SessionFolders,
    *,
    env: Mapping[str, str],
    scratch: str,
    shown: tuple[str, ...] = (),
) -> SpawnPolicy:
    """What the commands of a session in these folders may do. `scratch` is its own temporary folder; `shown` they may
    read although it lies where nothing is shown."""
    mode = "workspace-write" if settings.mode == "auto" else settings.mode
    home = env.get("HOME", "")
    asked = (_from_home(path, home) for path in settings.writable)
    return SpawnPolicy(
        mode=mode,
        workspace=here.workspace,
        writable=(*here.added, *asked) if mode == "workspace-write" else (),
        readable=(*here.added, *shown),
        programs=own_programs(),
        network=settings.network,
        hosts=settings.hosts if settings.network == "filtered" else (),
        scratch=scratch,
        required=settings.required,
        max_file_mib=settings.max_file_mib,
        max_processes=settings.max_processes,
        max_memory_mib=settings.max_memory_mib,
    )


def is_unfiltered(policy: SpawnPolicy, held_by: str) -> bool:
    """Whether the network was to be filtered and what is known to hold commands cannot, so that none runs."""
    return policy.network == "filtered" and policy.mode != "off" and held_by not in {"", *OWN_NETWORK}


def foreign_folder(policy: SpawnPolicy, held_by: str) -> str | None:
    """Why commands cannot write in the workspace after all; None where they can.

    Inside most borders the superuser is nobody special: files of other users stay closed.
    """
    if policy.mode != "workspace-write" or held_by in {"", UNCONFINED} or os.geteuid() != 0:
        return None
    owner = os.stat(policy.workspace).st_uid
    return sentence("ForeignFolder", {"owner": owner}) if owner else None


def _lists(where: OwnFolders) -> str:
    """Where the policy files of running commands are stored."""
    return os.path.join(where.state, "policy-lists")


def records_of(where: OwnFolders) -> str:
    """Where engines leave a record of the processes they start."""
    return os.path.join(where.state, "running")


def outlived(where: OwnFolders) -> Iterator[Notice]:
    """Ends what outlived an engine that was killed together with its guardian, and says so."""
    if not _has_any(records_of(where)):
        return
    if count := end_left_behind(records_of(where)):
        yield Notice(reason="OutlivedEnded", message=sentence("OutlivedEnded", {"count": count}))


async def left_behind(workspace: str, where: OwnFolders) -> list[Notice]:
    """Quarantine what a command left that was killed with its engine, and report it, one notice each."""
    if not (_has_any(_lists(where)) or _may_have_placeholders(workspace)):
        return []
    from bridle.sandbox.policy_files.policy_check import apart, check_left_behind  # most starts find nothing

    found = await apart(functools.partial(check_left_behind, workspace, _lists(where)))
    return [_left_notice(one, workspace) for one in found]


def _left_notice(found: Quarantined, workspace: str) -> Notice:
    change, aside = found
    data = {"path": _shown(change.path, workspace), "why": change.why}
    if isinstance(aside, str):
        reason, data["aside"] = "PutAside", _shown(aside, workspace)
        data["quoted"] = shlex.quote(data["aside"])
    else:
        reason, data["problem"] = "NotPutAside", aside.strerror or str(aside)
    return Notice(reason=reason, message=sentence(reason, data), data=data)


def _shown(path: str, workspace: str) -> str:
    return visible(os.path.relpath(path, workspace), newlines=False)


def _may_have_placeholders(workspace: str) -> bool:
    """Tell whether placeholders of a killed command may stand there, or something that leads git elsewhere."""
    git = os.path.join(workspace, ".git")
    try:
        return bool(os.lstat(git).st_mode & stat.S_ISVTX) or os.path.lexists(os.path.join(git, "commondir"))
    except OSError:
        return False


def _has_any(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:  # nobody has left anything there
        return False


def own_programs() -> tuple[str, ...]:
    """Return the folders of Bridle, its environment and its interpreter. Tools start programs from them."""
    return (
        _PACKAGE,
        *(os.path.realpath(folder) for folder in (sys.prefix, sys.base_prefix, sys.base_exec_prefix)),
        os.path.realpath(sys.executable),
    )


def _from_home(path: str, home: str) -> str:
    """`~/x` is in the home of the person; anything else stays as it is."""
    return os.path.join(home, path[2:]) if home and path.startswith("~/") else path


def clear_away(scratch: str) -> None:
    """Removes a session's temporary folder with everything its commands left in it, but for hundreds of folders in one
    another."""
    if os.path.isdir(scratch):
        import shutil  # slow to import, and most sessions run no command

        with contextlib.suppress(RecursionError):
            shutil.rmtree(scratch, ignore_errors=True)
