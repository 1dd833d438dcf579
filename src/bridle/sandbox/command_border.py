"""The border around one command, from before it starts until after it has ended, and what is said of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from bridle.base.processes import CannotStart
from bridle.base.threads import in_thread
from bridle.base.visible import visible
from bridle.engine.ports import SpawnPolicy
from bridle.protocol.events import Notice
from bridle.sandbox.adapters import Adapter, Launch
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.limits import CommandLimits
from bridle.sandbox.plain_spawn import OWN_NETWORK, ConfinedProcess

if TYPE_CHECKING:
    from bridle.base.processes import ProcessGroup
    from bridle.engine.ports import Hosts
    from bridle.sandbox.control_group import ControlGroup
    from bridle.sandbox.lookout import FolderLook, Lookout, MadeFile
    from bridle.sandbox.proxy import OutsideNetwork
    from bridle.sandbox.residents import Resident, Residents
    from bridle.sandbox.way_out import WayOut

_SIGNS = ("Read-only file system", "ermission denied", "not permitted", "resolve host", "name resolution")
"""What a command that succeeded nevertheless may have met on the way."""


def _nothing() -> None:
    pass


class FolderWatch(NamedTuple):
    """Who looks after what is made in the folders of a command. `residents` is None where there were none yet. `open`
    are the policies of those that run; what is `unsettled` is to be called where nobody can wait any more until it is
    known what a command made."""

    lookout: Lookout
    residents: Residents | None
    open: list[SpawnPolicy]
    unsettled: list[Callable[[], None]]


class CommandBorder:
    """The border around one command, from before it starts until after it has ended."""

    def __init__(
        self,
        adapter: Adapter,
        look: Callable[[], Confinement],
        cwd: str,
        limits: CommandLimits,
        *,
        watch: Callable[[tuple[str, ...]], FolderWatch],
        policy: SpawnPolicy,
        outside: OutsideNetwork | None,
        group: ControlGroup,
    ) -> None:
        self._group = group
        self.adapter = adapter
        self.limits = limits
        self._look = look
        self._cwd = cwd
        self._confinement: Confinement | None = None
        self._ended: Callable[[], None] = _nothing
        self._watch_for = watch
        self._watch: FolderWatch | None = None
        self.policy = policy
        self._is_open = False
        self._before: asyncio.Future[FolderLook] | None = None
        self._began: int | None = None
        self._settled: asyncio.Future[None] | None = None
        self._resident: Resident | None = None
        self._tell: Callable[[Notice], None] | None = None
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
            self._unwatch()
            raise
        self._way_out, self.variables = way_out, proxy_variables()
        return launch

    def _launch(self, argv: Sequence[str], policy: SpawnPolicy) -> Launch:
        if policy.resident and policy.mode == "workspace-write":
            from bridle.sandbox.residents import Resident

            self._resident = Resident(self._found)
        try:
            made = self.adapter.confined(argv, cwd=self._cwd, confinement=self._looked())
        except BaseException:
            self._unwatch()
            raise
        if self._resident is not None:
            made = self._resident.heard_from(made)
        self._ended = made.ended
        return made

    def hosts(self) -> Hosts:
        return self._way_out.hosts() if self._way_out is not None else {}

    def _looked(self) -> Confinement:
        self._confinement = confinement = self._look()
        if confinement.folders:
            watch = self._watch_for(confinement.folders)
            if self._resident is None and watch.residents is not None:
                watch.residents.look()  # before what is there counts as it is
            self._enter(confinement, watch)
        return confinement

    async def ready(self) -> bool:
        """Returns when it is known what is there before the command. Whether that had to be waited for."""
        if self._before is None:
            return False
        before = await self._before
        self._before = None
        if self._watch is not None:  # else it is over already
            self._began = self._watch.lookout.begin(before)
        return True

    def _enter(self, confinement: Confinement, watch: FolderWatch) -> None:
        self._watch = watch
        self._held = self._held_of(confinement)
        if self._resident is not None and watch.residents is not None:
            watch.residents.enter(self._resident, self._held)
        else:
            look = partial(watch.lookout.before, self._held)
            if watch.lookout.is_long and watch.residents is None:
                self._before = in_thread(look)
            else:
                self._began = watch.lookout.begin(look())
            watch.open.append(self.policy)
            self._is_open = True

    def _leave(self, watch: FolderWatch) -> None:
        watch.open.remove(self.policy)
        self._is_open = False

    def _held_of(self, confinement: Confinement) -> frozenset[str]:
        """What no command can change."""
        read_only = confinement.read_only if self._holds() else ()
        return frozenset((*confinement.held, *confinement.writable, *read_only))

    def around(self, started: ProcessGroup) -> ConfinedProcess:
        return ConfinedProcess(
            started,
            self.adapter.name,
            self.explain,
            self.put_aside,
            self.hosts,
            self.follow_put_aside,
            self.settled,
        )

    def _unwatch(self) -> None:
        """It did not start after all. Harmless when called again."""
        watch, self._watch = self._watch, None
        if self._resident is not None:
            self._resident.listener.end()
            if watch is not None and watch.residents is not None:
                watch.residents.leave(self._resident)
        elif watch is not None:
            began, self._before, self._began = self._began, None, None
            if began is not None:
                watch.lookout.forget(began)
            if self._is_open:
                self._leave(watch)

    def over(self) -> None:
        """Nothing of it runs any more, or it never did."""
        self._ended()
        if self._way_out is not None:
            self._way_out.close()
        if self._resident is not None:
            self._unwatch()
            return
        self._put_right(since_ns=0)
        watch = self._watch
        if self._began is None or watch is None:
            self._unwatch()
            return
        look = partial(watch.lookout.after, self._held)
        if not watch.lookout.is_long:
            self._judge(look())
            return
        settled = self._settled = asyncio.get_running_loop().create_future()
        watch.unsettled.append(self.settle_now)

        def judge(looked: asyncio.Future[FolderLook]) -> None:
            try:
                self._judge(
                    look() if looked.exception() else looked.result()
                )  # there may be no room for a thread
            finally:
                watch.unsettled.remove(self.settle_now)
                settled.set_result(None)

        in_thread(look).add_done_callback(judge)

    async def settled(self) -> None:
        """Returns when it is known what the command made, and that is put aside which may not be."""
        if self._settled is not None:
            await asyncio.shield(self._settled)

    def settle_now(self) -> None:
        """The same at once: nobody can wait any more."""
        if self._watch is not None and self._began is not None:
            self._judge(self._watch.lookout.after(self._held))

    def _judge(self, after: FolderLook) -> None:
        """Harmless where that was done before."""
        sealed, watch, began = self._confinement, self._watch, self._began
        if sealed is None or watch is None or began is None:
            return
        self._began = None
        came = watch.lookout.end(began, after, agreed=self.policy.agreed)
        if came and self.policy.git_tree:
            came = self._without_committed(came, watch.lookout)
        if came:
            self._put_aside(came)
        if sealed.working_trees and not self.policy.git_tree and _git_moved(sealed, began):
            self._tell_stayed(sealed, began)
        self._leave(watch)
        if watch.residents is not None:
            watch.residents.look()

    def _put_right(self, since_ns: int) -> bool:
        sealed = self._confinement
        tampered: Sequence[str] = ()
        if sealed and (
            sealed.unwanted or sealed.filled or sealed.kept or sealed.watched or sealed.working_trees
        ):
            from bridle.sandbox.aftermath import put_right

            stuck: dict[str, OSError] = {}
            tampered = put_right(sealed, stuck.__setitem__, since_ns=since_ns)
            for path in (path for path in tampered if path not in stuck):
                note = _told(self._shown(path), escalates=self._resident is None)
                self._notes.append(f"[sandbox: {note}]\n")
                if self._resident is not None:  # whose output nobody reads for such words
                    self._say(Notice(reason="PutAside", message=f"{note}."))
            for path, problem in stuck.items():
                self._tell_stuck(path, "leads git or an agent elsewhere, or names programs", problem)
        return bool(tampered)

    def _found(self, came: Sequence[MadeFile], since_ns: int) -> bool:
        """Puts aside what a resident made since then, and says whether there was anything."""
        put_right = self._put_right(since_ns)
        self._put_aside(came)
        return put_right or bool(came)

    def follow_put_aside(self, tell: Callable[[Notice], None]) -> Callable[[], None]:
        self._tell = tell
        for notice in self.put_aside:
            tell(notice)
        residents = self._watch.residents if self._watch is not None else None
        if residents is None or self._resident is None:
            return _nothing

        def look() -> None:
            residents.look()

        return look

    def _say(self, notice: Notice) -> None:
        self.put_aside.append(notice)
        if self._tell is not None:
            self._tell(notice)

    def _without_committed(self, came: Sequence[MadeFile], lookout: Lookout) -> list[MadeFile]:
        """What is not as git has it in a commit; what is, is said."""
        from bridle.sandbox.commits import is_committed

        brought = [what.path for what in came if is_committed(what.path)]
        if brought:
            names = ", ".join(map(self._shown, brought))
            self._notes.append(f"[sandbox: git brought {names}, which later runs obey]\n")
            lookout.learn(brought)
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
                if self._watch is not None:
                    self._watch.lookout.learn_aside(aside)
                shown, path = self._shown(what.path), self._shown(aside)
                told = f"{shown} was put aside as {path}: it {what.why}"
                back = f"bridle sandbox give-back {quote(path)}"
                self._notes.append(f"[sandbox: {told}. A person can bring it back: {back}]\n")
                self._say(Notice(reason="PutAside", message=f"{told}. To bring it back: {back}"))

    def _tell_stuck(self, path: str, why: str, problem: OSError) -> None:
        from bridle.protocol.errors import sentence

        data = {"path": self._shown(path), "why": why, "problem": problem.strerror or str(problem)}
        message = sentence("NotPutAside", data)
        self._notes.append(f"[sandbox: {message}]\n")
        self._say(Notice(reason="NotPutAside", message=message, data=data))

    def _holds(self) -> bool:
        """Whether what is to stay as it is cannot be changed by a command."""
        return "read_only" in getattr(self.adapter, "covers", ("read_only",))

    def _shown(self, path: str) -> str:
        seen_from = self.policy.workspace if self._resident is not None else self._cwd
        return visible(os.path.relpath(path, seen_from), newlines=False)

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


def _told(path: str, *, escalates: bool) -> str:
    """What is said about something that was put back."""
    if os.path.basename(path) in {"config", "config.worktree"}:
        hint = '. If it is needed, retry with escalate: "why"' if escalates else ""
        return f"{path} was put back as it was: commands may not name programs for git to run{hint}"
    if path.endswith("/.git"):
        return f"{path} was put aside: this submodule names programs for git to run"
    return f"{path} would lead git elsewhere; it was put back as it was"
