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
from bridle.safety.spawn import UNCONFINED, ConfinedProcess, EnvOnlySpawn, allowed_environment

if TYPE_CHECKING:
    from bridle.safety.sandbox.adapters import Adapter, Launch
    from bridle.safety.sandbox.confinement import Confinement, Place
    from bridle.safety.sandbox.lookout import Came, Lookout

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
    ) -> None:
        self._processes = processes
        self._place = functools.cache(place)
        self._choose = choose
        self._expected = expected
        self._failed = failed
        self._also = frozenset(also)
        self._unconfined = EnvOnlySpawn(processes, also=also)
        self._lookouts: dict[tuple[str, ...], Lookout] = {}

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
                adapter,
                lambda: confinement_of(policy, place, cwd),
                cwd,
                self._failed,
                lookout=self._lookout,
                policy=policy,
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
            return ConfinedProcess(started, adapter.name, border.explain, border.put_aside)
        raise AssertionError("unreachable")

    def learn(self, paths: Sequence[str]) -> None:
        """Files that later runs obey were changed by somebody who may."""
        for lookout in self._lookouts.values():
            lookout.learn(paths)

    def _lookout(self, folders: tuple[str, ...]) -> Lookout:
        """One for all commands in these folders: what it knows of them is from the one before."""
        found = self._lookouts.get(folders)
        if found is None:
            from bridle.safety.sandbox.lookout import Lookout

            found = self._lookouts[folders] = Lookout(folders)
        return found

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
        *,
        lookout: Callable[[tuple[str, ...]], Lookout],
        policy: SpawnPolicy,
    ) -> None:
        self._adapter = adapter
        self._look = look
        self._failed = failed
        self._cwd = cwd
        self._confinement: Confinement | None = None
        self._ended: Callable[[], None] = _nothing
        self._lookout_for = lookout
        self._policy = policy
        self._watching: tuple[Lookout, int] | None = None
        self._held: frozenset[str] = frozenset()
        self._notes: list[str] = []
        self.put_aside: list[str] = []

    def launch(self, argv: Sequence[str], policy: SpawnPolicy) -> Launch:
        """How to start `argv`. Another command may change what is looked at meanwhile."""
        from bridle.safety.sandbox.adapters import StartsAhead

        try:
            if isinstance(self._adapter, StartsAhead):
                made = self._adapter.ahead(argv, cwd=self._cwd, network=policy.network, look=self._looked)
            else:
                made = self._adapter.confined(argv, cwd=self._cwd, confinement=self._looked())
        except BaseException:
            if self._watching is not None:
                lookout, began = self._watching
                lookout.forget(began)
            raise
        self._ended = made.ended
        return made

    def _looked(self) -> Confinement:
        self._confinement = confinement = self._look()
        if confinement.folders:
            lookout = self._lookout_for(confinement.folders)
            self._held = frozenset(
                (
                    *confinement.held,
                    *confinement.writable,
                    *(confinement.read_only if self._holds() else ()),
                )
            )
            self._watching = lookout, lookout.begin(self._held)
        return confinement

    def over(self) -> None:
        """Nothing of it runs any more, or it never did."""
        self._ended()
        sealed = self._confinement
        if sealed and (
            sealed.unwanted or sealed.filled or sealed.kept or sealed.watched or sealed.working_trees
        ):
            from bridle.safety.sandbox.aftermath import put_right

            self._notes += [_told(self._shown(path)) for path in put_right(sealed)]
        if sealed and self._watching is not None:
            (lookout, began), self._watching = self._watching, None
            came = lookout.end(began, held=self._held, agreed=self._policy.agreed)
            if came and self._policy.git_tree:
                came = self._without_committed(came)
            if came:
                self._put_aside(came)
            if sealed.working_trees and not self._policy.git_tree and _git_moved(sealed, began):
                self._tell_stayed(sealed, began)

    def _without_committed(self, came: Sequence[Came]) -> list[Came]:
        """What is not as git has it in a commit; what is, is said."""
        from bridle.safety.sandbox.commits import is_committed

        brought = [what.path for what in came if is_committed(what.path)]
        if brought:
            names = ", ".join(map(self._shown, brought))
            self._notes.append(f"[sandbox: git brought {names}, which later runs obey]\n")
        return [what for what in came if what.path not in brought]

    def _tell_stayed(self, sealed: Confinement, began: int) -> None:
        from shlex import quote

        from bridle.safety.sandbox.commits import stayed_behind

        if names := [self._shown(path) for path in stayed_behind(sealed, began)]:
            self._notes.append(
                f"[sandbox: git went to another commit and {', '.join(names)} stayed as it was: commands may not "
                "change what later runs obey. To bring it, run this in a call of its own: "
                f"git checkout HEAD -- {' '.join(map(quote, names))}]\n"
            )

    def _put_aside(self, came: Sequence[Came]) -> None:
        from shlex import quote

        from bridle.safety.sandbox.aftermath import put_aside

        for what in came:
            if aside := put_aside(what):
                shown, path = self._shown(what.path), self._shown(aside)
                told = f"{shown} was put aside as {path}: it {what.why}"
                back = f"bridle sandbox give-back {quote(path)}"
                self._notes.append(f"[sandbox: {told}. A person can bring it back: {back}]\n")
                self.put_aside.append(f"{told}. To bring it back: {back}")

    def _holds(self) -> bool:
        """Whether what is to stay as it is cannot be changed by a command."""
        return "read_only" in getattr(self._adapter, "covers", ("read_only",))

    def _shown(self, path: str) -> str:
        return visible(os.path.relpath(path, self._cwd), newlines=False)

    def explain(self, exit_code: int, output: str) -> str:
        notes = [*self._notes]
        if exit_code == 1 and output.startswith(
            _BUBBLEWRAP_SAYS
        ):  # a command can pretend: nothing runs unconfined by it
            self._failed()
        if self._confinement and (exit_code or any(sign in output for sign in _SIGNS)):
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
