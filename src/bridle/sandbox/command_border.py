"""The border around one command, from before it starts until after it has ended, and what is said of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from shlex import quote
from typing import TypeVar

from bridle.base.clock import SystemClock
from bridle.base.fs.placeholders import CLOCK_TICK_NS
from bridle.base.process.processes import CannotStart, ProcessGroup
from bridle.base.text.terminal_text import visible
from bridle.engine.ports import BeginCall, EndCall, Hosts, SpawnPolicy
from bridle.protocol.errors import sentence
from bridle.protocol.events import Notice
from bridle.sandbox.adapters.adapter import Adapter, CommandLimits, Launch
from bridle.sandbox.adapters.control_group import ControlGroup
from bridle.sandbox.blocked import explain_blocked
from bridle.sandbox.confinement import Confinement
from bridle.sandbox.network.proxy import OutsideNetwork, WayOut, proxy_variables
from bridle.sandbox.plain_spawn import OWN_NETWORK, ConfinedProcess, begin_unchecked
from bridle.sandbox.policy_files.commits import stayed_behind
from bridle.sandbox.policy_files.policy_check import Checked, PolicyCheck, apart
from bridle.sandbox.policy_files.policy_snapshot import PolicyChange
from bridle.sandbox.policy_files.quarantine import put_right

T = TypeVar("T")
_SIGNS = ("Read-only file system", "ermission denied", "not permitted", "resolve host", "name resolution")
"""What a command that succeeded nevertheless may have met on the way."""


def _nothing() -> None:
    pass


class CommandBorder:
    """The border around one command, from before it starts until after it has ended.

    `check_for` gives the policy check of some folders. What is `unsettled` is to be called where nobody can wait any
    more until it is known what a command made.
    """

    def __init__(
        self,
        adapter: Adapter,
        look: Callable[[], Confinement],
        cwd: str,
        limits: CommandLimits,
        *,
        check_for: Callable[[tuple[str, ...]], PolicyCheck],
        unsettled: list[Callable[[], None]],
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
        self._check_for = check_for
        self._check: PolicyCheck | None = None
        self._unsettled = unsettled
        self.policy = policy
        self._before: asyncio.Future[Sequence[PolicyChange]] | None = None
        self._began_ns = 0
        self._is_counted = False
        self._settled: asyncio.Future[None] | None = None
        self._tell: Callable[[Notice], None] | None = None
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
        way_out = WayOut(policy.hosts, self._outside or OutsideNetwork(SystemClock()))
        try:
            launch = way_out.through(self._launch(argv, policy))
        except BaseException:
            way_out.close()
            self._forget()
            raise
        self._way_out, self.variables = way_out, proxy_variables()
        return launch

    def _launch(self, argv: Sequence[str], policy: SpawnPolicy) -> Launch:
        self._confinement = confinement = self._look()
        if confinement.folders:
            self._check = check = self._check_for(confinement.folders)
            self._began_ns = time.time_ns() - CLOCK_TICK_NS
            begin = check.look if policy.resident else partial(check.begin, self, policy, self._held())
            self._before = apart(begin)
        try:
            made = self.adapter.confined(argv, cwd=self._cwd, confinement=confinement)
        except BaseException:
            self._forget()
            raise
        self._ended = made.ended
        return made

    def _held(self) -> list[str]:
        """Return the paths that no command can change."""
        if self._confinement is None:
            return []
        holds = "read_only" in getattr(self.adapter, "covers", ("read_only",))
        return [*self._confinement.held, *(self._confinement.read_only if holds else ())]

    def hosts(self) -> Hosts:
        return self._way_out.hosts() if self._way_out is not None else {}

    async def ready(self) -> None:
        """Return when it is known what is there before the command."""
        if self._before is not None:
            self._report_unknown(await asyncio.shield(self._before))
            self._before = None
        if self._check is not None and self.policy.resident:
            self._check.servers += 1
            self._is_counted = True

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

    def _forget(self) -> None:
        """Drop a command that did not start after all. Harmless when called again."""
        check, self._check = self._check, None
        if check is None or self.policy.resident:
            return
        check.drop(self)
        if self._before is None:
            apart(check.tidy)
        else:
            self._before.add_done_callback(lambda _begun: apart(check.tidy))

    def over(self) -> None:
        """Check what a command made: nothing of it runs any more, or it never did."""
        self._ended()
        if self._way_out is not None:
            self._way_out.close()
        check = self._check
        if self.policy.resident:
            if self._is_counted and check is not None:
                self._settle(check.look, partial(self._report_last, check))
            return
        self._put_right()
        if self._before is not None or check is None:
            self._forget()
            return
        self._unsettled.append(self.settle_now)
        self._settle(partial(check.end, self), self._report_end)

    def _settle(self, call: Callable[[], T], report: Callable[[T], None]) -> None:
        settled = self._settled = asyncio.get_running_loop().create_future()

        def done(checked: asyncio.Future[T]) -> None:
            try:
                if checked.exception() is not None:
                    self._say_cut()
                report(checked.result())
            finally:
                settled.set_result(None)

        apart(call).add_done_callback(done)

    def _report_end(self, checked: Checked | None) -> None:
        self._unsettled.remove(self.settle_now)
        self._report(checked)

    def _report_last(self, check: PolicyCheck, changes: Sequence[PolicyChange]) -> None:
        check.servers -= 1
        self._report_unknown(changes)

    async def settled(self) -> None:
        """Return when it is known what the command made, and what may not be is quarantined."""
        if self._settled is not None:
            await asyncio.shield(self._settled)

    def settle_now(self) -> None:
        """Check at once: nobody can wait any more."""
        if self._check is not None:
            self._report(self._check.end(self))

    def follow_put_aside(self, tell: Callable[[Notice], None]) -> BeginCall:
        self._tell = tell
        for notice in self.put_aside:
            tell(notice)
        check = self._check
        if check is None or not self.policy.resident:
            return begin_unchecked

        async def begin() -> EndCall:
            token, began_ns = object(), time.time_ns() - CLOCK_TICK_NS
            begun = apart(partial(check.begin, token, self.policy, self._held()))
            try:
                self._report_unknown(await asyncio.shield(begun))
            except asyncio.CancelledError:
                check.drop(token)
                begun.add_done_callback(lambda _begun: apart(check.tidy))
                raise

            async def end() -> None:
                checked = await asyncio.shield(apart(partial(check.end, token)))
                self._put_right(began_ns)
                self._report(checked)

            return end

        return begin

    def _report(self, checked: Checked | None) -> None:
        """Harmless where it was checked before."""
        if checked is None:
            return
        if checked.committed:
            names = ", ".join(map(self._shown, checked.committed))
            self._notes.append(f"[sandbox: git brought policy files: {names}]\n")
        for change, aside in checked.quarantined:
            if isinstance(aside, OSError):
                self._tell_stuck(change.path, change.why, aside)
            else:
                self._tell_aside(change, aside)
        if checked.cut:
            self._say_cut()
        sealed = self._confinement
        if (
            sealed
            and sealed.working_trees
            and not self.policy.git_tree
            and _git_moved(sealed, self._began_ns)
        ):
            self._tell_stayed(sealed, self._began_ns)

    def _report_unknown(self, changes: Sequence[PolicyChange]) -> None:
        """Report what appeared while only a server ran: it may be the user's, so it stays."""
        for change in changes:
            data = {"path": self._shown(change.path), "why": change.why}
            message = sentence("PolicyFileAppeared", data)
            self._notes.append(f"[sandbox: {message}]\n")
            self._say(Notice(reason="PolicyFileAppeared", message=message, data=data))

    def _say_cut(self) -> None:
        """Report a check that was not complete, once in a session, which its scratch folder stands for."""
        assert self._check is not None
        if self.policy.scratch not in self._check.told_cut:
            self._check.told_cut.add(self.policy.scratch)
            message = sentence("PolicyCheckCut", {})
            self._notes.append(f"[sandbox: {message}]\n")
            self._say(Notice(reason="PolicyCheckCut", message=message))

    def _tell_aside(self, change: PolicyChange, aside: str) -> None:
        shown, path = self._shown(change.path), self._shown(aside)
        told = f"{shown} was quarantined as {path}: it {change.why}"
        back = f"bridle sandbox give-back {quote(path)}"
        self._notes.append(f"[sandbox: {told}. The user can restore it: {back}]\n")
        self._say(Notice(reason="PutAside", message=f"{told}. To restore it: {back}"))

    def _put_right(self, since_ns: int = 0) -> None:
        sealed, resident = self._confinement, self.policy.resident
        if not sealed or not (
            sealed.unwanted or sealed.filled or sealed.kept or sealed.watched or sealed.working_trees
        ):
            return
        stuck: dict[str, OSError] = {}
        for path in put_right(sealed, stuck.__setitem__, since_ns=since_ns):
            if path not in stuck:
                note = _told(self._shown(path), escalates=not resident)
                self._notes.append(f"[sandbox: {note}]\n")
                if resident:  # whose output nobody reads for such notes
                    self._say(Notice(reason="PutAside", message=f"{note}."))
        for path, problem in stuck.items():
            self._tell_stuck(path, "points git or an agent to another folder, or names programs", problem)

    def _say(self, notice: Notice) -> None:
        self.put_aside.append(notice)
        if self._tell is not None:
            self._tell(notice)

    def _tell_stayed(self, sealed: Confinement, began: int) -> None:
        if names := [self._shown(path) for path in stayed_behind(sealed, began)]:
            self._notes.append(
                f"[sandbox: git went to another commit and {', '.join(names)} stayed as it was: commands cannot "
                "change policy files. To update it, run this in a call of its own: "
                f"git checkout HEAD -- {' '.join(map(quote, names))}]\n"
            )

    def _tell_stuck(self, path: str, why: str, problem: OSError) -> None:
        data = {"path": self._shown(path), "why": why, "problem": problem.strerror or str(problem)}
        message = sentence("NotPutAside", data)
        self._notes.append(f"[sandbox: {message}]\n")
        self._say(Notice(reason="NotPutAside", message=message, data=data))

    def _shown(self, path: str) -> str:
        return visible(os.path.relpath(path, self.policy.workspace), newlines=False)

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
    """Return the note about a git file that was restored or quarantined."""
    if os.path.basename(path) in {"config", "config.worktree"}:
        hint = '. If it is needed, retry with escalate: "why"' if escalates else ""
        return f"{path} was restored: commands cannot set programs for git to run{hint}"
    if path.endswith("/.git"):
        return f"{path} was quarantined: this submodule names programs for git to run"
    return f"{path} was restored: it pointed git to another folder"
