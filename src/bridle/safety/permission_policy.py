"""Who decides whether a call may run, in which order, and why. Pure but for the saved grants it is given.

The first that has something to say:
  1  guards and hooks: they have spoken before anything here is asked
  2  any rule that denies
  3  a grant: a yes this session remembers, or one saved for this project
  4  the first matching rule, tiers from flags down to built-in
  5  the rules and modes of the agent and of those that sent it, where they are stricter than what came of the others
  6  the mode's table
  7  ask
Every decision names the step and what decided. Rules and grants come before the mode, so an allow rule holds in `safe`
and `plan` too; but those modes never ask: where anything would ask a person there, the answer is no. An agent never
gets more than its session has, nor than whoever sent it: what one of them denies itself is asked about, and only a
person, or a yes they gave before, lets it pass. A call a hook wants asked about, and a command that asks to leave the
sandbox or prints a secret, pass over grants and allow rules: a person says yes to each one. So does, where a rule
denies commands, one that hides what it runs from that rule: the rule asks, in step 2. What leaves the sandbox,
prints a secret or changes what later runs obey is `for_person`, and except in `yolo` so is what a tool keeps for every
session: no mode, no broad rule and no `yes` says it for them. A person who means it says so at the start, by a flag of
its own (`Lifted`). A rule with `keys` asks for the yes of so many different people, in step 2: no other rule, no grant,
no mode, no hook and no `yes` comes before it.

`evaluate` is the plain first-match function over tool names, for programs that want rules and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from bridle.base.fs.paths import SessionFolders
from bridle.base.fs.private_places import PrivatePlaces
from bridle.base.secrets.secret_files import SECRET_FILES
from bridle.engine.tools import ToolCall
from bridle.protocol.events import GrantAdded, Mode, Risk, Verdict
from bridle.safety.call_risk import CallFacts, facts_of_call
from bridle.safety.grants import Grant, SavedGrants
from bridle.safety.patterns import ALIASES, tool_matches
from bridle.safety.rules import Rule, RuleTier, evaluate, first_match, in_tier_order, matches, parse_rule
from bridle.safety.touched_files import NOTHING_LIFTED, Lifted, SessionPlaces
from bridle.shell.command_facts import Understand

__all__ = [
    "MODE_TABLE",
    "SILENT_MODES",
    "STEPS",
    "Decision",
    "Permissions",
    "Rule",
    "RuleTier",
    "decide",
    "evaluate",
    "parse_rule",
]

DecidedBy: TypeAlias = Literal["rule", "grant", "agent", "mode", "default", "hook", "yes", "person", "nobody"]

STEPS: Mapping[int, str] = {
    1: "a guard or a hook",
    2: "a rule that denies",
    3: "a grant",
    4: "a rule",
    5: "the agent",
    6: "the mode",
    7: "nothing, so somebody is asked",
}
SILENT_MODES: frozenset[Mode] = frozenset({"safe", "plan"})
"""Modes in which nobody is asked: what would ask is denied."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict and what decided.

    `step` is the one of the order above; it stays when a person answers. `reason` is the stable one of a denial, `note`
    what the rule's author wrote. `for_person`: only the yes of a person counts, not that of a hook or a flag, and of so
    many people as `keys` says.
    """

    verdict: Verdict
    decided_by: DecidedBy
    step: int
    rule: str | None = None
    origin: str | None = None
    reason: str | None = None
    note: str | None = None
    for_person: bool = False
    keys: int = 1


class ModeCell(NamedTuple):
    """One cell of the mode table: the verdict for quiet calls, and for all others."""

    quiet: Verdict
    otherwise: Verdict


_ALLOW = ModeCell("allow", "allow")
_ASK = ModeCell("ask", "ask")
_DENY = ModeCell("deny", "deny")
_QUIET_OR_ASK = ModeCell("allow", "ask")
_QUIET_OR_DENY = ModeCell("allow", "deny")
_SAFE: Mapping[Risk, ModeCell] = {
    "read": _QUIET_OR_DENY, "write": _DENY, "shell": _QUIET_OR_DENY, "network": _DENY, "dangerous": _DENY,
}  # fmt: skip

MODE_TABLE: Mapping[Mode, Mapping[Risk, ModeCell]] = {
    "strict": {"read": _ASK, "write": _ASK, "shell": _ASK, "network": _ASK, "dangerous": _ASK},
    "default": {
        "read": _QUIET_OR_ASK, "write": _ASK, "shell": _QUIET_OR_ASK, "network": _ASK, "dangerous": _ASK,
    },
    "safe": _SAFE,
    "auto": {"read": _ALLOW, "write": _ALLOW, "shell": _ALLOW, "network": _ALLOW, "dangerous": _ASK},
    "yolo": {"read": _ALLOW, "write": _ALLOW, "shell": _ALLOW, "network": _ALLOW, "dangerous": _ALLOW},
    "plan": _SAFE,
}  # fmt: skip


class AgentPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent leaves of what its session lets happen. The first of its `rules` about a call counts, else
    `default`; `mode` holds where it is stricter."""

    name: str
    rules: tuple[Rule, ...] = ()
    default: Verdict | None = None
    mode: Mode | None = None


def decide(
    query: CallFacts,
    *,
    mode: Mode,
    rules: Sequence[Rule] = (),
    grants: Iterable[Grant] = (),
    agents: Sequence[AgentPolicy] = (),
) -> Decision:
    """The verdict on one call. `rules` are in tier order (see `in_tier_order`), `agents` go from the one a person
    talks to down to the one that makes it."""
    grants = tuple(grants)
    decision = _of_session(query, mode, rules, grants)
    modes: list[Mode] = [agent.mode for agent in agents if agent.mode is not None]
    for own in modes:
        stricter = _of_session(query, own, rules, grants)
        decision = min(decision, stricter, key=lambda one: _FREEDOM[one.verdict])
    held: list[Mode] = [mode, *modes]
    silent = next(filter(SILENT_MODES.__contains__, held), None)
    if silent is not None and decision.verdict == "ask":
        decision = _asked_of_nobody(decision, silent)
    for agent in agents:
        decision = _of_agent(query, decision, agent, silent=silent is not None)
    return decision


def _keeps(agent: AgentPolicy, query: CallFacts) -> bool:
    """Whether an agent's rules keep a file from it: one about files that does not allow it, or what denies the rest.
    What only asks about every call has asked about the one that looks."""
    rule = next((rule for rule in agent.rules if matches(rule, query)), None)
    if rule is None or rule.path is None:
        return (agent.default if rule is None else rule.verdict) == "deny"
    return rule.verdict != "allow"


_SEARCHES = ("read_file", "grep", "glob", "ls")
"""Tools that show what files hold or are called; a rule about one of them and a file is about all of them."""
_FREEDOM: Mapping[Verdict, int] = {"deny": 0, "ask": 1, "allow": 2}


def _of_session(query: CallFacts, mode: Mode, rules: Sequence[Rule], grants: Iterable[Grant]) -> Decision:
    decision = _decide(query, mode, rules, grants)
    if decision.verdict != "ask":
        return decision
    if mode in SILENT_MODES:
        return _asked_of_nobody(decision, mode)
    return msgspec.structs.replace(decision, for_person=True) if _is_for_person(query, mode) else decision


def _asked_of_nobody(decision: Decision, mode: Mode) -> Decision:
    return Decision(
        verdict="deny", decided_by="mode", step=6, rule=mode, reason="ModeDenied", note=decision.note
    )


def _of_agent(query: CallFacts, decision: Decision, agent: AgentPolicy, *, silent: bool) -> Decision:
    """The same, or less of it: what the agent does not do by itself is for a person, who may have said yes before."""
    if decision.verdict == "deny" or decision.decided_by == "grant":
        return decision
    rule = next((rule for rule in agent.rules if matches(rule, query)), None)
    verdict = agent.default if rule is None else rule.verdict
    if verdict is None or verdict == "allow" or (verdict == "ask" and decision.verdict == "ask"):
        return decision
    return Decision(
        verdict="deny" if silent else "ask",
        decided_by="agent",
        step=5,
        rule=None if rule is None else rule.shown,
        origin=f"agent {agent.name}",
        reason="AgentDenied" if silent else None,
        note=None if rule is None else rule.reason,
        for_person=verdict == "deny" or decision.for_person,
        keys=decision.keys,
    )


def _is_for_person(query: CallFacts, mode: Mode) -> bool:
    """`yolo` means secrets in files and lasting notes too; it does not mean what runs later without anybody looking."""
    return query.asks_person or (query.for_person and mode != "yolo")


def _decide(query: CallFacts, mode: Mode, rules: Sequence[Rule], grants: Iterable[Grant]) -> Decision:
    for rule in rules:
        if rule.verdict == "deny" and matches(rule, query):
            return _by_rule(rule, step=2)
    if needing := _needing_most(rules, query):
        return _by_keys(needing)
    if query.hides and (guarding := _guarding(rules, query.tool)):
        return _by_hidden(query, guarding)
    if query.must_ask:
        return Decision(verdict="ask", decided_by="hook", step=1, note=query.must_ask)
    if query.escalates or query.discloses or query.brings:
        return Decision(verdict="ask", decided_by="default", step=7)
    if grant := _granted(query, grants):
        return Decision(verdict="allow", decided_by="grant", step=3, rule=grant.grant_id)
    if rule := first_match(query, rules):
        return _by_rule(rule, step=4)
    return _by_mode(query, mode)


class Permissions:
    """The permissions of one session: what was configured, and what changes while it runs.

    `yes` answers every question with yes but those for a person alone; it lifts no denial. `lifted` are the questions a
    person answered at the start, `private` where secrets are on this machine. `mode` is asked at every decision: a
    session's mode is a fold over its events and may change while it runs. `understand` reads commands; without it none
    is quiet. `saved` are the grants kept on disk, None where nothing is kept; those of the workspace's root count here.
    `names_programs` says that a rule denies commands, so that each program of one must be known by name.
    """

    def __init__(
        self,
        *,
        folders: SessionFolders,
        mode: Callable[[], Mode] = lambda: "default",
        rules: Iterable[Rule] = (),
        yes: bool = False,
        understand: Understand | None = None,
        protected: tuple[str, ...] = (),
        secret_files: tuple[str, ...] = SECRET_FILES,
        saved: SavedGrants | None = None,
        lifted: Lifted = NOTHING_LIFTED,
        private: PrivatePlaces | None = None,
    ) -> None:
        self._mode = mode
        self.yes = yes
        self.places = SessionPlaces(
            folders=folders, protected=protected, secret_files=secret_files, lifted=lifted, private=private
        )
        self._rules = in_tier_order(rules)
        self.names_programs = any(map(_denies_commands, self._rules))
        self.agents: tuple[AgentPolicy, ...] = ()
        self.understand = understand
        self._saved = saved
        self._root = folders.workspace
        self._grants: dict[str, Grant] = {}

    @property
    def mode(self) -> Mode:
        return self._mode()

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._rules

    @property
    def grants(self) -> tuple[Grant, ...]:
        """Those of this session, then the saved ones."""
        return (*self._grants.values(), *(self._saved.of(self.root) if self._saved is not None else ()))

    @property
    def persists(self) -> bool:
        """Whether a yes may be kept for later sessions."""
        return self._saved is not None

    @property
    def root(self) -> str:
        """The folder that saved grants belong to."""
        return self._root

    def query(self, call: ToolCall) -> CallFacts:
        """What there is to decide about a guarded call."""
        return facts_of_call(call, self.places, understand=self.understand, named=self.names_programs)

    def may_read(self, call: ToolCall) -> bool:
        """Whether nobody would be asked if this call only read the files it is about."""
        replace = msgspec.structs.replace
        reading = replace(
            call,
            name="read_file",
            tool=replace(call.definition, name="read_file", risk="read"),
            subjects=tuple(replace(subject, access="read") for subject in call.subjects),
            mutating=False,
            must_ask="",
        )
        return self.decide(self.query(reading)).verdict == "allow"

    def decide(self, query: CallFacts) -> Decision:
        return decide(query, mode=self.mode, rules=self._rules, grants=self.grants, agents=self.agents)

    def within(self, agent: AgentPolicy) -> Permissions:
        """The permissions of an agent that these send. What a person says yes to there holds for all of the session."""
        return self._narrowed((*self.agents, agent))

    def of_session(self) -> Permissions:
        """The same without what agents leave of them."""
        return self._narrowed(())

    def kept_from_agents(self) -> Callable[[str], bool] | None:
        """Whether one of the agents, from the main one down, is not to see an absolute path unasked; None where no rule
        of theirs is about files."""
        keeping = [
            (agent, tool)
            for agent in self.agents
            for tool in _SEARCHES
            if any(rule.path is not None and tool_matches(rule.tool, tool) for rule in agent.rules)
        ]
        if not keeping:
            return None

        def is_kept(path: str) -> bool:
            names = (self.places.name(path),)
            return any(
                _keeps(agent, CallFacts(tool=tool, risk="read", paths=names)) for agent, tool in keeping
            )

        return is_kept

    def _narrowed(self, agents: tuple[AgentPolicy, ...]) -> Permissions:
        other = copy(self)
        other.agents = agents
        return other

    def placed_as(self, there: Permissions) -> Permissions:
        """These permissions for calls in the folders of others: rules, mode and grants stay the session's own."""
        other = copy(self)
        other.places, other.understand = there.places, there.understand
        return other

    def remember(self, grant: GrantAdded) -> GrantAdded:
        """Takes a grant into this session and, if it is to be saved, into the file; returns it with its end.

        An empty pattern stands for the whole tool. Where it cannot be saved it holds for this session, and the reason
        is raised (OSError or `BridleError`).
        """
        if grant.life == "saved" and self._saved is not None:
            try:
                return self._saved.add(self.root, grant)
            except Exception:
                self._hold(grant)
                raise
        self._hold(grant)
        return grant

    def revoke(self, grant_id: str) -> bool:
        """Forgets a grant, also on disk. False when there is none of this id."""
        if self._grants.pop(grant_id, None) is not None:
            return True
        return self._saved is not None and self._saved.revoke(self.root, grant_id)

    def _hold(self, grant: GrantAdded) -> None:
        self._grants[grant.grant_id] = Grant(
            grant_id=grant.grant_id, tool=grant.tool, subject=grant.pattern or None, match=grant.match
        )


def _granted(query: CallFacts, grants: Iterable[Grant]) -> Grant | None:
    """A grant that covers the call: literal ones for everything it is about, one for its key, one for the tool.

    What is exceptional passes with literal ones only.
    """
    mine = [grant for grant in grants if query.tool in ALIASES.get(grant.tool, (grant.tool,))]
    subjects = query.subjects
    literal = {
        grant.subject: grant for grant in mine if grant.match == "literal" and grant.subject is not None
    }
    if subjects and all(subject in literal for subject in subjects):
        return literal[subjects[0]]
    if query.exceptional:
        return None
    key = query.key
    for grant in mine:
        if grant.subject is None or (grant.match == "key" and grant.subject == key):
            return grant
    return None


def _by_rule(rule: Rule, *, step: int) -> Decision:
    return Decision(
        verdict=rule.verdict,
        decided_by="rule",
        step=step,
        rule=rule.shown,
        origin=rule.origin or rule.tier,
        reason="RuleDenied" if rule.verdict == "deny" else None,
        note=rule.reason,
    )


def _needing_most(rules: Sequence[Rule], query: CallFacts) -> Rule | None:
    """Of the rules about this call, the first of those that want the most people."""
    wanting = [rule for rule in rules if rule.keys > 1 and matches(rule, query)]
    return max(wanting, key=lambda rule: rule.keys, default=None)


def _by_keys(rule: Rule) -> Decision:
    asked = _by_rule(rule, step=2)
    return msgspec.structs.replace(asked, for_person=True, keys=rule.keys)


def _denies_commands(rule: Rule) -> bool:
    """Whether somebody, not Bridle itself, wrote down commands that must not run, or not by the word of one person."""
    return (rule.verdict == "deny" or rule.keys > 1) and rule.command is not None and rule.tier != "builtin"


def _guarding(rules: Sequence[Rule], tool: str) -> Rule | None:
    about = [rule for rule in rules if _denies_commands(rule) and tool_matches(rule.tool, tool)]
    return max(about, key=lambda rule: rule.keys, default=None)


def _by_hidden(query: CallFacts, rule: Rule) -> Decision:
    """A person says what becomes of a command that a rule about commands cannot see through."""
    return Decision(
        verdict="ask",
        decided_by="rule",
        step=2,
        rule=rule.shown,
        origin=rule.origin or rule.tier,
        note=f"{query.hides}, so nobody can tell whether {rule.shown} {_wants(rule)}",
        for_person=True,
        keys=rule.keys,
    )


def _wants(rule: Rule) -> str:
    return "denies it" if rule.verdict == "deny" else f"wants {rule.keys} people for it"


def _by_mode(query: CallFacts, mode: Mode) -> Decision:
    cell = MODE_TABLE[mode].get(query.risk)
    if cell is None:
        return Decision(verdict="ask", decided_by="default", step=7)
    verdict = cell.quiet if query.quiet else cell.otherwise
    if verdict == "allow" and _is_for_person(query, mode):
        verdict = "ask"
    return Decision(
        verdict=verdict,
        decided_by="mode",
        step=6,
        rule=mode,
        reason="ModeDenied" if verdict == "deny" else None,
    )
