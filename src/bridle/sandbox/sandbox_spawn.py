"""How the engine starts processes: every one has a clean environment and, where this machine can, a border.

Where nothing can hold a command, it runs with the rights of the person and says so; with `required` it does not run.
Nothing runs on a claim: `ClaimedSpawn` starts the commands of people who were told what holds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from bridle.base.process.processes import CannotStart, Output, Processes, ProcessGroup, is_scarce
from bridle.engine.ports import SpawnPolicy
from bridle.sandbox.adapters.adapter import CannotConfine, CommandLimits
from bridle.sandbox.adapters.adapter_choice import ORDER
from bridle.sandbox.adapters.adapter_start import HeldBack, start
from bridle.sandbox.confinement import confinement_of, known_of
from bridle.sandbox.plain_spawn import (
    OWN_NETWORK,
    UNCONFINED,
    ConfinedProcess,
    EnvOnlySpawn,
    allowed_environment,
)

if TYPE_CHECKING:
    from bridle.base.process.duplex import InputPipe
    from bridle.sandbox.adapters.adapter import Adapter, Launch
    from bridle.sandbox.adapters.control_group import ControlGroup
    from bridle.sandbox.command_border import CommandBorder
    from bridle.sandbox.confinement import Confinement, HostContext
    from bridle.sandbox.network.proxy import OutsideNetwork
    from bridle.sandbox.policy_files.policy_check import PolicyCheck

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
    `lists` is where the policy files of a running command are stored, should we be killed.
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
        lists: str = "",
    ) -> None:
        self._processes = processes
        self._lists = lists
        self._place = functools.cache(place)
        self._choose = choose
        self._known = known
        self._failed = failed
        self._also = frozenset(also)
        self._outside = outside
        self._unconfined = EnvOnlySpawn(processes, also=also)
        self._places: dict[str, HostContext] = {}
        self._checks: dict[tuple[str, ...], PolicyCheck] = {}
        self._unsettled: list[Callable[[], None]] = []
        self._changing: list[Sequence[str]] = []
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
    ) -> ConfinedProcess:
        """As `Spawn` says. `agree` is told what will hold the command before it runs, and may raise `CannotStart`."""
        adapter = None if policy.mode == "off" else await self._choose()
        tried: list[tuple[str, str]] = []
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
        for pause_s in (*_PAUSES_S, None):
            border = self._border(adapter, policy, cwd)
            try:
                started = await self._start(
                    border.launch(argv, policy),
                    border,
                    cwd=cwd,
                    env=env,
                    on_output=on_output,
                    on_error=on_error,
                    stdin=stdin,
                )
            except HeldBack as held_back:
                if pause_s is not None:
                    await asyncio.sleep(pause_s)
                    continue
                started = held_back.process
                if held_back.said.startswith(_BUBBLEWRAP_SAYS):
                    failed = ConfinedProcess(started, adapter.name, border.explain)
                    raise _NotHeld(held_back.said, failed) from held_back
                (on_error or on_output)(held_back.said)
            except (OSError, CannotConfine) as refused:
                if pause_s is not None:
                    await asyncio.sleep(pause_s)
                    continue
                raise CannotStart(
                    argv[0], "no resources" if is_scarce(refused) else "no sandbox"
                ) from refused
            return border.around(started)
        raise AssertionError("unreachable")

    def _border(self, adapter: Adapter, policy: SpawnPolicy, cwd: str) -> CommandBorder:
        from bridle.sandbox.command_border import CommandBorder

        group = self._group(policy)
        if (
            group.holds and adapter.name not in OWN_NETWORK
        ):  # nor is there a process namespace that ends with us
            self._processes.keep(group.counting, group.take)
        return CommandBorder(
            adapter,
            lambda: self._looked(policy, cwd),
            cwd,
            CommandLimits(policy.max_file_mib, group.take if group.holds else None),
            check_for=self._check_for,
            unsettled=self._unsettled,
            policy=policy,
            outside=self._outside,
            group=group,
        )

    async def _start(
        self,
        launch: Launch,
        border: CommandBorder,
        *,
        cwd: str,
        env: Mapping[str, str],
        on_output: Output,
        on_error: Output | None,
        stdin: bytes | InputPipe | None,
    ) -> ProcessGroup:
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
            ready=border.ready,
            ended=border.over,
            limits=border.limits,
        )

    @contextlib.contextmanager
    def changing(self, paths: Sequence[str]) -> Generator[None]:
        """Meanwhile somebody changes these who may, whatever later runs obey."""
        self._changing.append(paths)
        try:
            yield
        finally:
            for check in self._checks.values():
                check.learn(paths)
            self._changing.remove(paths)

    def close(self) -> None:
        for settle in [*self._unsettled]:
            settle()
        for group in self._groups.values():
            group.close()
        self._groups.clear()

    def _group(self, policy: SpawnPolicy) -> ControlGroup:
        """One for all commands that are to be counted together."""
        most = (policy.max_processes, policy.max_memory_mib)
        found = self._groups.get(most)
        if found is None:
            from bridle.sandbox.adapters.control_group import ControlGroup, SharedLimits, writable_parents

            found = self._groups[most] = ControlGroup(writable_parents(), SharedLimits(*most))
        return found

    def _looked(self, policy: SpawnPolicy, cwd: str) -> Confinement:
        """What the policy means here now. Placeholders do not stay if we are killed."""
        confinement = confinement_of(policy, self._place_of(policy.workspace), cwd)
        if confinement.absent or confinement.filled:
            masked = (*confinement.absent, *(path for path, _ in confinement.filled))
            self._processes.leave_to_guardian(masked)
        return confinement

    def _check_for(self, folders: tuple[str, ...]) -> PolicyCheck:
        """One for all commands in these folders: what one made is not taken for granted by another."""
        found = self._checks.get(folders)
        if found is None:
            from bridle.sandbox.policy_files.policy_check import PolicyCheck

            found = self._checks[folders] = PolicyCheck(folders, self._lists, self._changing)
        return found

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


def _way_of(adapter: Adapter) -> tuple[str, str]:
    return adapter.name, getattr(adapter, "variant", "")


class ClaimedSpawn:
    """The `Spawn` of people who were told that `told` holds their commands; empty: they were told that nobody knows.

    What holds a command is compared with that before it runs. Where it is less, `weaker` is told first, with what was
    told before; where nothing is left of a sandbox they were told of, the command does not run.
    """

    def __init__(self, spawn: SandboxSpawn, told: str, *, weaker: Callable[[str, str], None]) -> None:
        self._spawn = spawn
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
    return -ORDER.index(name) if name in ORDER else -len(ORDER)
