"""How the engine starts processes: every one has a clean environment and, where this machine can, a border.

Where nothing can hold a command, it runs with the rights of the person and says so; with `required` it does not run.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from bridle.base.processes import CannotStart, Processes, is_scarce
from bridle.base.visible import visible
from bridle.engine.ports import SpawnPolicy
from bridle.safety.spawn import (
    OWN_NETWORK,
    UNCONFINED,
    ConfinedProcess,
    EnvOnlySpawn,
    allowed_environment,
)

if TYPE_CHECKING:
    from bridle.engine.ports import Hosts
    from bridle.safety.sandbox.adapters import Adapter, Launch
    from bridle.safety.sandbox.confinement import Confinement, Place
    from bridle.safety.sandbox.proxy import Outside
    from bridle.safety.sandbox.way_out import WayOut

_SIGNS = ("Read-only file system", "ermission denied", "not permitted", "resolve host", "name resolution")
"""What a command that succeeded nevertheless may have met on the way."""

_BUBBLEWRAP_SAYS = "bwrap: "
_TRIES = 3


def _nothing() -> None:
    pass


def _not_known() -> str | None:
    return None


class SandboxSpawn:
    """Starts processes as their policy says. What confines them is loaded with the first that is to be confined.

    `choose` gives the adapter of this machine, or None; `expected` the name it will have, without starting anything.
    `failed` is told when the adapter itself seems to have failed: what this machine can do is to be found out again.
    `outside` is the network that a command whose own is filtered is let into, by rules; None: this machine's.
    `place` is asked once; its caches are the folder of all projects' caches: each has its own in there.
    """

    def __init__(
        self,
        processes: Processes,
        *,
        place: Callable[[], Place],
        choose: Callable[[], Awaitable[Adapter | None]],
        expected: Callable[[], str | None] = _not_known,
        failed: Callable[[], None] = _nothing,
        also: Collection[str] = (),
        outside: Outside | None = None,
    ) -> None:
        self._processes = processes
        self._place = functools.cache(place)
        self._choose = choose
        self._expected = expected
        self._failed = failed
        self._also = frozenset(also)
        self._outside = outside
        self._unconfined = EnvOnlySpawn(processes, also=also)

    @property
    def adapter(self) -> str:
        return self._expected() or UNCONFINED

    async def held_by(self) -> str | None:
        """What really confines commands here, found out; None where nothing does, or nothing can be started."""
        try:
            adapter = await self._choose()
        except CannotStart:
            return None
        return adapter.name if adapter is not None else None

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        call_id: str,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        stdin: bytes | None = None,
    ) -> ConfinedProcess:
        adapter = None if policy.mode == "off" else await self._choose()
        if adapter is None:
            if policy.required and policy.mode != "off":
                raise CannotStart(argv[0], "no sandbox")
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

    async def _confined(
        self,
        adapter: Adapter,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        policy: SpawnPolicy,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None,
        stdin: bytes | None,
    ) -> ConfinedProcess:
        """Starts it in a border. Where that failed and the command certainly did not run, it is tried again.

        If it never works, there is a process that failed, and it said why.
        """
        from bridle.safety.sandbox.adapters import CannotConfine
        from bridle.safety.sandbox.confinement import confinement_of, known_of
        from bridle.safety.sandbox.starting import HeldBack, start

        place = self._place_of(policy.workspace)
        for tries_left in reversed(range(_TRIES)):
            border = _Border(
                adapter, lambda: confinement_of(policy, place, cwd), cwd, self._failed, self._outside
            )
            launch = None
            try:
                launch = border.launch(argv, policy)
                started = await start(
                    self._processes,
                    launch,
                    cwd=cwd,
                    env={
                        **allowed_environment(env, self._also),
                        **adapter.variables(known_of(policy, place)),
                        **border.variables,
                        **policy.variables,
                    },
                    on_output=on_output,
                    on_error=on_error,
                    stdin=stdin,
                    ended=border.over,
                )
            except HeldBack as held_back:
                if tries_left:
                    continue
                (on_error or on_output)(held_back.said)
                started = held_back.process
            except (OSError, CannotConfine) as refused:
                if launch is not None and launch.gate is None:
                    raise  # who knows whether it ran
                if tries_left:
                    continue
                raise CannotStart(
                    argv[0], "no resources" if is_scarce(refused) else "no sandbox"
                ) from refused
            return ConfinedProcess(started, adapter.name, border.explain, border.hosts)
        raise AssertionError("unreachable")

    def _place_of(self, workspace: str) -> Place:
        """The place with the caches of this project alone: no project's downloads reach another."""
        place = self._place()
        if not place.caches:
            return place
        name = f"{os.path.basename(workspace)[:32]}-{sha256(os.fsencode(workspace)).hexdigest()[:12]}"
        return msgspec.structs.replace(place, caches=os.path.join(place.caches, name))


class _Border:
    """The border around one command, from before it starts until after it has ended."""

    def __init__(
        self,
        adapter: Adapter,
        look: Callable[[], Confinement],
        cwd: str,
        failed: Callable[[], None],
        outside: Outside | None,
    ) -> None:
        self._adapter = adapter
        self._look = look
        self._failed = failed
        self._cwd = cwd
        self._confinement: Confinement | None = None
        self._ended: Callable[[], None] = _nothing
        self._put_aside: tuple[str, ...] = ()
        self._outside = outside
        self._way_out: WayOut | None = None
        self.variables: Mapping[str, str] = {}

    def launch(self, argv: Sequence[str], policy: SpawnPolicy) -> Launch:
        """How to start `argv`. Another command may change what is looked at meanwhile."""
        if policy.network != "filtered":
            return self._launch(argv, policy)
        if self._adapter.name not in OWN_NETWORK:
            raise CannotStart(argv[0], "no network filter")
        from bridle.base.clock import SystemClock
        from bridle.safety.sandbox.proxy import Outside
        from bridle.safety.sandbox.way_out import WayOut, proxy_variables

        way_out = WayOut(policy.hosts, self._outside or Outside(SystemClock()))
        try:
            launch = way_out.through(self._launch(argv, policy))
        except BaseException:
            way_out.close()
            raise
        self._way_out, self.variables = way_out, proxy_variables()
        return launch

    def _launch(self, argv: Sequence[str], policy: SpawnPolicy) -> Launch:
        from bridle.safety.sandbox.adapters import StartsAhead

        if isinstance(self._adapter, StartsAhead):
            made = self._adapter.ahead(argv, cwd=self._cwd, network=policy.network, look=self._looked)
        else:
            made = self._adapter.confined(argv, cwd=self._cwd, confinement=self._looked())
        self._ended = made.ended
        return made

    def hosts(self) -> Hosts:
        return self._way_out.hosts() if self._way_out is not None else {}

    def _looked(self) -> Confinement:
        self._confinement = self._look()
        return self._confinement

    def over(self) -> None:
        """Nothing of it runs any more, or it never did."""
        self._ended()
        if self._way_out is not None:
            self._way_out.close()
        sealed = self._confinement
        if sealed and (sealed.unwanted or sealed.kept or sealed.watched or sealed.working_trees):
            from bridle.safety.sandbox.aftermath import put_right

            self._put_aside = put_right(sealed)

    def explain(self, exit_code: int, output: str) -> str:
        notes = [_told(visible(os.path.relpath(path, self._cwd), newlines=False)) for path in self._put_aside]
        if exit_code == 1 and output.startswith(
            _BUBBLEWRAP_SAYS
        ):  # a command can pretend: nothing runs unconfined by it
            self._failed()
        unreached = [f"[sandbox: {note}]\n" for note in self._way_out.notes()] if self._way_out else []
        notes += unreached
        if self._confinement and not unreached and (exit_code or any(sign in output for sign in _SIGNS)):
            from bridle.safety.sandbox.blocked import explain_blocked

            told = explain_blocked(
                adapter=self._adapter.name,
                exit_code=exit_code,
                output=output,
                confinement=self._confinement,
                cwd=self._cwd,
            )
            notes += [f"{told}\n"] if told else []
        return "".join(notes)


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
