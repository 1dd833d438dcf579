"""How the engine starts processes: every one has a clean environment and, where this machine can, a border.

Where nothing can hold a command, it runs with the rights of the person and says so; with `required` it does not run.
Nothing runs on a claim: `ClaimedSpawn` starts the commands of people who were told what holds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from bridle.base.processes import CannotStart, Output, Processes, ProcessGroup, is_scarce
from bridle.base.visible import visible
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.events import Notice
from bridle.sandbox.plain_spawn import (
    OWN_NETWORK,
    UNCONFINED,
    ConfinedProcess,
    EnvOnlySpawn,
    allowed_environment,
)

if TYPE_CHECKING:
    from bridle.base.duplex import InputPipe
    from bridle.engine.ports import Hosts
    from bridle.sandbox.adapters import Adapter, Launch, WaitingMounts
    from bridle.sandbox.confinement import Confinement, HostContext
    from bridle.sandbox.confinement_cache import ConfinementCache
    from bridle.sandbox.control_group import ControlGroup
    from bridle.sandbox.limits import CommandLimits
    from bridle.sandbox.lookout import Lookout, MadeFile
    from bridle.sandbox.proxy import OutsideNetwork
    from bridle.sandbox.warm_sandbox import CommandPlace, WarmSandbox, WarmSandboxes
    from bridle.sandbox.way_out import WayOut

_SIGNS = ("Read-only file system", "ermission denied", "not permitted", "resolve host", "name resolution")
"""What a command that succeeded nevertheless may have met on the way."""

_BUBBLEWRAP_SAYS = b"bwrap: "
_PAUSES_S = (0.0, 0.0, 0.01, 0.02, 0.04, 0.08, 0.16)
"""Between the tries to start one: the masks of other commands in the same folder come and go meanwhile."""
SETTLE_S = 5.0
"""How long a session waits to hear what will hold its commands."""


def _nothing() -> None:
    pass


def _not_known() -> str:
    return ""


def _agree(_adapter: str) -> None:
    pass


class _NotHeld(Exception):
    """Bubblewrap itself failed, however often; the command certainly did not run. What it said is in `process`."""

    def __init__(self, said: bytes, process: ConfinedProcess) -> None:
        super().__init__(said)
        self.said = said
        self.process = process


class SandboxSpawn:
    """Starts processes as their policy says. What confines them is loaded with the first that is to be confined.

    `choose` gives the adapter of this machine, or None; `known` its name (`env-only`: there is none; empty while nobody
    knows) without starting anything. `failed` is told when the adapter itself failed: what this machine can do is to be
    found out again. `outside` is the network that a command whose own is filtered is let into, by rules; None: this
    machine's.
    `notes` is where it is noted, should we be killed, that the masks of a command were taken away. `away` is a folder
    of ours for the masks of sandboxes that wait; without it none does.
    `place` is asked once; its caches are the folder of all projects' caches: each has its own in there.
    """

    def __init__(
        self,
        processes: Processes,
        *,
        place: Callable[[], HostContext],
        choose: Callable[[], Awaitable[Adapter | None]],
        known: Callable[[], str] = _not_known,
        failed: Callable[[], None] = _nothing,
        also: Collection[str] = (),
        outside: OutsideNetwork | None = None,
        notes: str = "",
        away: str = "",
    ) -> None:
        self._processes = processes
        self._notes = notes
        self._away = away
        self._place = functools.cache(place)
        self._choose = choose
        self._known = known
        self._failed = failed
        self._also = frozenset(also)
        self._outside = outside
        self._unconfined = EnvOnlySpawn(processes, also=also)
        self._places: dict[str, HostContext] = {}
        self._unmovable: set[str] = set()
        self._lookouts: dict[tuple[str, ...], Lookout] = {}
        self._groups: dict[tuple[int, int], ControlGroup] = {}

    @property
    def adapter(self) -> str:
        return self._known()

    async def held_by(self, *, within_s: float = SETTLE_S) -> str:
        """What really confines commands here, found out by trying where nobody knows; `env-only`: nothing does. Empty
        where that could not be found out in time."""
        if known := self._known():
            return known
        try:
            async with asyncio.timeout(within_s):
                adapter = await self._choose()
        except (CannotStart, OSError):  # a timeout too
            return ""
        return UNCONFINED if adapter is None else adapter.name

    @contextlib.asynccontextmanager
    async def looking(self, wanted: bool) -> AsyncGenerator[None]:
        """Meanwhile it is found out what holds commands here, where that is wanted and nobody knows. It is known, or
        cannot be, at the end."""
        if not wanted or self._known():
            yield
            return
        look = asyncio.create_task(self.held_by())
        try:
            await asyncio.sleep(0)  # what it has started works by itself
            yield
            await look
        finally:
            look.cancel()

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        call_id: str,
        on_output: Output,
        on_error: Output | None = None,
        stdin: bytes | InputPipe | None = None,
        agree: Callable[[str], None] = _agree,
        warm: WarmSandboxes | None = None,
    ) -> ConfinedProcess:
        """As `Spawn` says. `agree` is told what will hold the command before it runs, and may raise `CannotStart`.
        `warm` may have a sandbox that waits for it."""
        adapter = None if policy.mode == "off" else await self._choose()
        tried: list[tuple[str, str]] = []
        if adapter is not None and warm is not None and stdin is None and on_error is None:
            agree(adapter.name)
            if (
                started := await self._run_warm(warm, adapter, argv, cwd, env, policy, on_output)
            ) is not None:
                return started
        while adapter is not None:
            agree(adapter.name)
            try:
                return await self._confined(
                    adapter,
                    argv,
                    cwd=cwd,
                    env=env,
                    policy=policy,
                    on_output=on_output,
                    on_error=on_error,
                    stdin=stdin,
                )
            except _NotHeld as not_held:
                tried.append(_way_of(adapter))
                self._failed()
                adapter = await self._choose()
                if (
                    adapter is not None and _way_of(adapter) in tried
                ):  # it holds others: this command is the reason
                    (on_error or on_output)(not_held.said)
                    return not_held.process
        if policy.mode != "off":
            if policy.required:
                raise CannotStart(argv[0], "no sandbox")
            agree(UNCONFINED)
        return await self._unconfined(
            argv,
            cwd=cwd,
            env=env,
            policy=policy,
            call_id=call_id,
            on_output=on_output,
            on_error=on_error,
            stdin=stdin,
        )

    async def _run_warm(
        self,
        warm: WarmSandboxes,
        adapter: Adapter,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        on_output: Output,
    ) -> ConfinedProcess | None:
        """Runs it in a sandbox that waits; None where none does that still holds, and it certainly did not run."""
        from bridle.sandbox.warm_sandbox import CommandPlace

        sandbox = await warm.take(CommandPlace(cwd, env, policy))
        if sandbox is None:
            return None
        if sandbox.adapter is not adapter:
            sandbox.discard()
            return None
        confinement = self._confinements.of(policy, self._place_of(policy.workspace), cwd)
        return sandbox.run(argv, on_output, confinement)

    async def _confined(
        self,
        adapter: Adapter,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        on_output: Output,
        on_error: Output | None,
        stdin: bytes | InputPipe | None,
    ) -> ConfinedProcess:
        """Starts it in a border. Where that failed and the command certainly did not run, it is tried again.

        If it never works, there is a process that failed, and it said why. Raises `_NotHeld` where it was bubblewrap
        that said so.
        """
        from bridle.sandbox.adapter_start import HeldBack
        from bridle.sandbox.adapters import CannotConfine

        place = self._place_of(policy.workspace)
        for pause_s in (*_PAUSES_S, None):
            border = self._border(
                adapter, policy, cwd, lambda: self._looked(self._confinements.of(policy, place, cwd))
            )
            launch = None
            try:
                launch = border.launch(argv, policy)
                started = await self._start(
                    launch,
                    border,
                    cwd=cwd,
                    env=env,
                    on_output=on_output,
                    on_error=on_error,
                    stdin=stdin,
                )
            except HeldBack as held_back:
                if pause_s is not None:
                    self._confinements.forget()
                    await asyncio.sleep(pause_s)
                    continue
                started = held_back.process
                if held_back.said.startswith(_BUBBLEWRAP_SAYS):
                    failed = ConfinedProcess(started, adapter.name, border.explain)
                    raise _NotHeld(held_back.said, failed) from held_back
                (on_error or on_output)(held_back.said)
            except (OSError, CannotConfine) as refused:
                if launch is not None and launch.gate is None:
                    raise  # who knows whether it ran
                if pause_s is not None:
                    self._confinements.forget()
                    await asyncio.sleep(pause_s)
                    continue
                raise CannotStart(
                    argv[0], "no resources" if is_scarce(refused) else "no sandbox"
                ) from refused
            return border.around(started)
        raise AssertionError("unreachable")

    async def wait_for_command(self, at: CommandPlace) -> WarmSandbox | None:
        """Starts a sandbox for a command that is not known yet. None where none can wait: nobody can hold one here, or
        another command runs in the same folders."""
        from bridle.base.duplex import InputPipe
        from bridle.sandbox.adapter_start import HeldBack
        from bridle.sandbox.adapters import CannotConfine, can_wait
        from bridle.sandbox.warm_sandbox import WAITING, LateOutput, WarmSandbox, is_passed_on

        policy = at.policy
        if not self._away or policy.workspace in self._unmovable:
            return None
        if not all(map(is_passed_on, (*allowed_environment(at.env, self._also), *policy.variables))):
            return None
        inlet, output = InputPipe(), LateOutput()
        try:
            adapter = await self._choose()
            if adapter is None or not can_wait(adapter):
                return None
            confinement = self._confinements.of(policy, self._place_of(policy.workspace), at.cwd)
            if any(map(os.path.lexists, _masked(confinement))):
                return None
            border = self._border(adapter, policy, at.cwd, lambda: self._looked(confinement), waits=True)
            launch = border.launch(WAITING, policy)
            process = await self._start(
                launch, border, cwd=at.cwd, env=at.env, on_output=output, on_error=None, stdin=inlet
            )
        except (HeldBack, CannotConfine, CannotStart, OSError):
            self._confinements.forget()
            return None
        assert border.mounts is not None
        sandbox = WarmSandbox(
            adapter, process, border.mounts, inlet, output, begin=border.begin, confined=border.around
        )
        waits = False
        try:
            if await output.until_ready(process):
                border.mounts.put_away(lambda: self._cleared_away)
                waits = True
        except (BlockingIOError, FileExistsError):  # somebody else needs a mask, or came in this moment
            pass
        except OSError:  # another file system, or one that cannot do this
            self._unmovable.add(policy.workspace)
        finally:
            if not waits:
                sandbox.discard()
        return sandbox if waits else None

    def _border(
        self,
        adapter: Adapter,
        policy: SpawnPolicy,
        cwd: str,
        look: Callable[[], Confinement],
        *,
        waits: bool = False,
    ) -> _Border:
        from bridle.sandbox.limits import CommandLimits

        group = self._group(policy)
        if (
            group.holds and adapter.name not in OWN_NETWORK
        ):  # nor is there a process namespace that ends with us
            self._processes.keep(group.counting, group.take)
        return _Border(
            adapter,
            look,
            cwd,
            CommandLimits(policy.max_file_mib, group.take),
            lookout=self._lookout,
            policy=policy,
            outside=self._outside,
            group=group,
            waits=waits,
        )

    async def _start(
        self,
        launch: Launch,
        border: _Border,
        *,
        cwd: str,
        env: Mapping[str, str],
        on_output: Output,
        on_error: Output | None,
        stdin: bytes | InputPipe | None,
    ) -> ProcessGroup:
        from bridle.sandbox.adapter_start import start
        from bridle.sandbox.confinement import known_of

        adapter, policy = border.adapter, border.policy
        return await start(
            self._processes,
            launch,
            cwd=cwd,
            env={
                **allowed_environment(env, self._also),
                **adapter.variables(known_of(policy, self._place_of(policy.workspace))),
                **border.variables,
                **policy.variables,
            },
            on_output=on_output,
            on_error=on_error,
            stdin=stdin,
            ended=border.over,
            limits=border.limits,
        )

    def learn(self, paths: Sequence[str]) -> None:
        """Files that later runs obey were changed by somebody who may."""
        for lookout in self._lookouts.values():
            lookout.learn(paths)

    def close(self) -> None:
        """No command runs any more."""
        for group in self._groups.values():
            group.close()
        self._groups.clear()

    def _group(self, policy: SpawnPolicy) -> ControlGroup:
        """One for all commands that are to be counted together."""
        most = (policy.max_processes, policy.max_memory_mib)
        found = self._groups.get(most)
        if found is None:
            from bridle.sandbox.control_group import ControlGroup, SharedLimits, writable_parents

            found = self._groups[most] = ControlGroup(writable_parents(), SharedLimits(*most))
        return found

    def _looked(self, confinement: Confinement) -> Confinement:
        """What is about to be masked does not stay so if we are killed."""
        if self._notes and (confinement.absent or confinement.filled):
            self._processes.leave_to_guardian(_masked(confinement), notes=self._notes)
        return confinement

    def _lookout(self, folders: tuple[str, ...]) -> Lookout:
        """One for all commands in these folders: what it knows of them is from the one before."""
        found = self._lookouts.get(folders)
        if found is None:
            from bridle.sandbox.lookout import Lookout

            found = self._lookouts[folders] = Lookout(folders)
        return found

    @functools.cached_property
    def _cleared_away(self) -> str:
        from bridle.sandbox.masks import clear_away

        return clear_away(self._away)

    @functools.cached_property
    def _confinements(self) -> ConfinementCache:
        from bridle.sandbox.confinement_cache import ConfinementCache

        return ConfinementCache()

    def _place_of(self, workspace: str) -> HostContext:
        """The place with the caches of this project alone: no project's downloads reach another."""
        found = self._places.get(workspace)
        if found is None:
            found = self._place()
            if found.caches:
                name = f"{os.path.basename(workspace)[:32]}-{sha256(os.fsencode(workspace)).hexdigest()[:12]}"
                found = msgspec.structs.replace(found, caches=os.path.join(found.caches, name))
            self._places[workspace] = found
        return found


def _masked(confinement: Confinement) -> tuple[str, ...]:
    return *confinement.absent, *(path for path, _ in confinement.filled)


def _way_of(adapter: Adapter) -> tuple[str, str]:
    return adapter.name, getattr(adapter, "variant", "")


class ClaimedSpawn:
    """The `Spawn` of people who were told that `told` holds their commands; empty: they were told that nobody knows.

    What holds a command is compared with that before it runs. Where it is less, `weaker` is told first, with what was
    told before; where nothing is left of a sandbox they were told of, the command does not run.
    `warm` has the sandboxes that wait for their commands, from the first one on, if `make_warm` makes them.
    """

    def __init__(
        self,
        spawn: SandboxSpawn,
        told: str,
        *,
        weaker: Callable[[str, str], None],
        make_warm: Callable[[SandboxSpawn], WarmSandboxes] | None = None,
    ) -> None:
        self._spawn = spawn
        self._make_warm = make_warm
        self.warm: WarmSandboxes | None = None
        self._told = told
        self._weaker = weaker

    @property
    def adapter(self) -> str:
        return self._told

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        call_id: str,
        on_output: Output,
        on_error: Output | None = None,
        stdin: bytes | InputPipe | None = None,
    ) -> ConfinedProcess:
        if self.warm is None and self._make_warm is not None:
            self.warm = self._make_warm(self._spawn)
        return await self._spawn(
            argv,
            cwd=cwd,
            env=env,
            policy=policy,
            call_id=call_id,
            on_output=on_output,
            on_error=on_error,
            stdin=stdin,
            agree=functools.partial(self._agree, argv[0]),
            warm=self.warm,
        )

    def _agree(self, program: str, holds: str) -> None:
        told = self._told
        if holds == told:
            return
        if holds == UNCONFINED and told:
            raise CannotStart(program, "sandbox lost")
        self._told = holds
        if holds == UNCONFINED or (told and _strength(holds) < _strength(told)):
            self._weaker(holds, told)


def _strength(name: str) -> int:
    from bridle.sandbox.adapter_choice import ORDER

    return -ORDER.index(name) if name in ORDER else -len(ORDER)


class _Border:
    """The border around one command, from before it starts until after it has ended."""

    def __init__(
        self,
        adapter: Adapter,
        look: Callable[[], Confinement],
        cwd: str,
        limits: CommandLimits,
        *,
        lookout: Callable[[tuple[str, ...]], Lookout],
        policy: SpawnPolicy,
        outside: OutsideNetwork | None,
        group: ControlGroup,
        waits: bool = False,
    ) -> None:
        self._group = group
        self._waits = waits
        self.mounts: WaitingMounts | None = None
        self.adapter = adapter
        self.limits = limits
        self._look = look
        self._cwd = cwd
        self._confinement: Confinement | None = None
        self._ended: Callable[[], None] = _nothing
        self._lookout_for = lookout
        self.policy = policy
        self._watching: tuple[Lookout, int] | None = None
        self._held: frozenset[str] = frozenset()
        self._notes: list[str] = []
        self.put_aside: list[Notice] = []
        self._outside = outside
        self._way_out: WayOut | None = None
        self.variables: Mapping[str, str] = {}

    def launch(self, argv: Sequence[str], policy: SpawnPolicy) -> Launch:
        """How to start `argv`. Another command may change what is looked at meanwhile."""
        if policy.network != "filtered":
            return self._launch(argv, policy)
        if self.adapter.name not in OWN_NETWORK:
            raise CannotStart(argv[0], "no network filter")
        from bridle.base.clock import SystemClock
        from bridle.sandbox.proxy import OutsideNetwork
        from bridle.sandbox.way_out import WayOut, proxy_variables

        way_out = WayOut(policy.hosts, self._outside or OutsideNetwork(SystemClock()))
        try:
            launch = way_out.through(self._launch(argv, policy))
        except BaseException:
            way_out.close()
            raise
        self._way_out, self.variables = way_out, proxy_variables()
        return launch

    def _launch(self, argv: Sequence[str], policy: SpawnPolicy) -> Launch:
        from bridle.sandbox.adapters import can_wait, starts_ahead

        try:
            if self._waits and can_wait(self.adapter):
                made, self.mounts = self.adapter.waiting(
                    argv, cwd=self._cwd, network=policy.network, look=self._looked
                )
            elif starts_ahead(self.adapter):
                made = self.adapter.ahead(argv, cwd=self._cwd, network=policy.network, look=self._looked)
            else:
                made = self.adapter.confined(argv, cwd=self._cwd, confinement=self._looked())
        except BaseException:
            if self._watching is not None:
                lookout, began = self._watching
                lookout.forget(began)
            raise
        self._ended = made.ended
        return made

    def hosts(self) -> Hosts:
        return self._way_out.hosts() if self._way_out is not None else {}

    def _looked(self) -> Confinement:
        self._confinement = confinement = self._look()
        if not self._waits:
            self.begin()
        return confinement

    def begin(self) -> None:
        """A command is about to run in it."""
        self._waits = False
        confinement = self._confinement
        if confinement is not None and confinement.folders:
            lookout = self._lookout_for(confinement.folders)
            self._held = frozenset(
                (
                    *confinement.held,
                    *confinement.writable,
                    *(confinement.read_only if self._holds() else ()),
                )
            )
            self._watching = lookout, lookout.begin(self._held)

    def around(self, started: ProcessGroup) -> ConfinedProcess:
        return ConfinedProcess(started, self.adapter.name, self.explain, self.put_aside, self.hosts)

    def over(self) -> None:
        """Nothing of it runs any more, or it never did."""
        self._ended()
        if self.mounts is not None:
            self.mounts.close()
        if self._way_out is not None:
            self._way_out.close()
        sealed = self._confinement if not self._waits else None
        if sealed and (
            sealed.unwanted or sealed.filled or sealed.kept or sealed.watched or sealed.working_trees
        ):
            from bridle.sandbox.aftermath import put_right

            stuck: dict[str, OSError] = {}
            tampered = put_right(sealed, stuck.__setitem__)
            self._notes += [_told(self._shown(path)) for path in tampered if path not in stuck]
            for path, problem in stuck.items():
                self._tell_stuck(path, "leads git or an agent elsewhere, or names programs", problem)
        if sealed and self._watching is not None:
            (lookout, began), self._watching = self._watching, None
            came = lookout.end(began, held=self._held, agreed=self.policy.agreed)
            if came and self.policy.git_tree:
                came = self._without_committed(came)
            if came:
                self._put_aside(came)
            if sealed.working_trees and not self.policy.git_tree and _git_moved(sealed, began):
                self._tell_stayed(sealed, began)

    def _without_committed(self, came: Sequence[MadeFile]) -> list[MadeFile]:
        """What is not as git has it in a commit; what is, is said."""
        from bridle.sandbox.commits import is_committed

        brought = [what.path for what in came if is_committed(what.path)]
        if brought:
            names = ", ".join(map(self._shown, brought))
            self._notes.append(f"[sandbox: git brought {names}, which later runs obey]\n")
        return [what for what in came if what.path not in brought]

    def _tell_stayed(self, sealed: Confinement, began: int) -> None:
        from shlex import quote

        from bridle.sandbox.commits import stayed_behind

        if names := [self._shown(path) for path in stayed_behind(sealed, began)]:
            self._notes.append(
                f"[sandbox: git went to another commit and {', '.join(names)} stayed as it was: commands may not "
                "change what later runs obey. To bring it, run this in a call of its own: "
                f"git checkout HEAD -- {' '.join(map(quote, names))}]\n"
            )

    def _put_aside(self, came: Sequence[MadeFile]) -> None:
        from shlex import quote

        from bridle.sandbox.aftermath import put_aside

        for what in came:
            try:
                aside = put_aside(what)
            except OSError as problem:
                self._tell_stuck(what.path, what.why, problem)
                continue
            if aside:
                shown, path = self._shown(what.path), self._shown(aside)
                told = f"{shown} was put aside as {path}: it {what.why}"
                back = f"bridle sandbox give-back {quote(path)}"
                self._notes.append(f"[sandbox: {told}. A person can bring it back: {back}]\n")
                self.put_aside.append(Notice(reason="PutAside", message=f"{told}. To bring it back: {back}"))

    def _tell_stuck(self, path: str, why: str, problem: OSError) -> None:
        from bridle.protocol.errors import sentence

        data = {"path": self._shown(path), "why": why, "problem": problem.strerror or str(problem)}
        message = sentence("NotPutAside", data)
        self._notes.append(f"[sandbox: {message}]\n")
        self.put_aside.append(Notice(reason="NotPutAside", message=message, data=data))

    def _holds(self) -> bool:
        """Whether what is to stay as it is cannot be changed by a command."""
        return "read_only" in getattr(self.adapter, "covers", ("read_only",))

    def _shown(self, path: str) -> str:
        return visible(os.path.relpath(path, self._cwd), newlines=False)

    def explain(self, exit_code: int, output: str) -> str:
        notes = [*self._notes]
        if exit_code and self.limits.was_met(exit_code, output):
            most = f"{self.limits.file_mib:,} MiB here (sandbox.max_file_mib)"
            notes.append(f"[sandbox: a file of a command may have at most {most}]\n")
        if exit_code and (met := self._group.met()):
            notes.append(f"[sandbox: {met}]\n")
        unreached = [f"[sandbox: {note}]\n" for note in self._way_out.notes()] if self._way_out else []
        notes += unreached
        if self._confinement and not unreached and (exit_code or any(sign in output for sign in _SIGNS)):
            from bridle.sandbox.blocked import explain_blocked

            told = explain_blocked(
                adapter=self.adapter.name,
                exit_code=exit_code,
                output=output,
                confinement=self._confinement,
                cwd=self._cwd,
            )
            notes += [f"{told}\n"] if told else []
        return "".join(notes)


def _git_moved(sealed: Confinement, began: int) -> bool:
    """Whether git noted since then that it went somewhere; mostly it did not, and nothing more is loaded."""
    for tree in sealed.working_trees:
        try:
            if os.lstat(f"{tree.git_dir}/logs/HEAD").st_ctime_ns >= began:
                return True
        except OSError:
            continue
    return False


def _told(path: str) -> str:
    """What the model reads about something that was put back."""
    if os.path.basename(path) in {"config", "config.worktree"}:
        return (
            f"[sandbox: {path} was put back as it was: commands may not name programs for git to run. "
            'If it is needed, retry with escalate: "why"]\n'
        )
    if path.endswith("/.git"):
        return f"[sandbox: {path} was put aside: this submodule names programs for git to run]\n"
    return f"[sandbox: {path} would lead git elsewhere; it was put back as it was]\n"
