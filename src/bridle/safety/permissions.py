"""Who decides whether a call may run, in which order, and why. Pure.

Guards have spoken before. Then, the first that has something to say:
  1  any rule that denies
  2  a grant: a yes this session remembers
  3  the first matching rule, tiers from flags down to built-in
  4  the agent's own default
  5  the mode's table
  6  ask
Every decision names what decided. `evaluate` is the plain first-match function over tool names, for programs
that want rules and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from bridle.engine.tools import ToolCall
from bridle.protocol.errors import UsageError
from bridle.protocol.events import GrantAdded, Mode, Risk, Verdict
from bridle.safety.paths import SessionFolders
from bridle.safety.patterns import (
    ALIASES,
    command_matches_exactly,
    command_matches_generously,
    path_matches_exactly,
    path_matches_generously,
    tool_matches,
)
from bridle.safety.sensitive import is_policy_file

Tier: TypeAlias = Literal["flags", "local", "project", "user", "profile", "builtin"]
TIERS: tuple[Tier, ...] = ("flags", "local", "project", "user", "profile", "builtin")

DecidedBy: TypeAlias = Literal["rule", "grant", "agent", "mode", "default", "yes", "person", "nobody"]

PATH_TOOLS = frozenset({"read_file", "write_file", "edit_file", "apply_patch", "grep", "glob", "ls"})
COMMAND_TOOLS = frozenset({"bash"})


class Rule(msgspec.Struct, frozen=True):
    """A pattern and a verdict. `origin` says where it was written, for people: `user config, line 12`."""

    tool: str
    verdict: Verdict
    path: str | None = None
    command: str | None = None
    reason: str | None = None
    tier: Tier = "user"
    origin: str = ""

    @property
    def shown(self) -> str:
        pattern = self.command or self.path
        return f"{self.tool}({pattern})" if pattern else self.tool


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered yes: to the whole tool, or to one command or path taken literally."""

    grant_id: str
    tool: str
    subject: str | None = None


class PathName(msgspec.Struct, frozen=True, kw_only=True):
    """A file as rules see it: absolute, and relative when it is in the workspace."""

    absolute: str
    relative: str | None = None

    @property
    def shown(self) -> str:
        return self.relative or self.absolute


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a decision looks at.

    `quiet`: reading inside the session's folders, a command proven to only read, or a call about nothing
    outside. `policy_file`: it would change what later runs obey, so only a yes or a rule that names the file
    itself may let it pass.
    """

    tool: str
    risk: Risk
    command: str | None = None
    paths: tuple[PathName, ...] = ()
    quiet: bool = False
    policy_file: bool = False
    agent_default: Verdict | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict and what decided.

    `reason` is the stable one of a denial, `note` what the rule's author wrote.
    """

    verdict: Verdict
    decided_by: DecidedBy
    rule: str | None = None
    origin: str | None = None
    reason: str | None = None
    note: str | None = None


class Cell(NamedTuple):
    """One cell of the mode table: the verdict for quiet calls, and for all others."""

    quiet: Verdict
    otherwise: Verdict


_ALLOW = Cell("allow", "allow")
_ASK = Cell("ask", "ask")
_DENY = Cell("deny", "deny")
_QUIET_OR_ASK = Cell("allow", "ask")
_QUIET_OR_DENY = Cell("allow", "deny")
_SAFE: Mapping[Risk, Cell] = {
    "read": _QUIET_OR_DENY, "write": _DENY, "shell": _QUIET_OR_DENY, "network": _DENY, "dangerous": _DENY,
}  # fmt: skip

MODE_TABLE: Mapping[Mode, Mapping[Risk, Cell]] = {
    "strict": {"read": _ASK, "write": _ASK, "shell": _ASK, "network": _ASK, "dangerous": _ASK},
    "default": {
        "read": _QUIET_OR_ASK, "write": _ASK, "shell": _QUIET_OR_ASK, "network": _ASK, "dangerous": _ASK,
    },
    "safe": _SAFE,
    "auto": {"read": _ALLOW, "write": _ALLOW, "shell": _ALLOW, "network": _ALLOW, "dangerous": _ASK},
    "yolo": {"read": _ALLOW, "write": _ALLOW, "shell": _ALLOW, "network": _ALLOW, "dangerous": _ALLOW},
    "plan": _SAFE,
}  # fmt: skip


def parse_rule(text: str, verdict: Verdict, *, tier: Tier = "flags", origin: str = "") -> Rule:
    """A rule from its short form: `edit`, `mcp__*`, `bash(npm test*)`, `Read(docs/**)`.

    Raises `UsageError`.
    """
    name, bracket, rest = text.strip().partition("(")
    name = name.strip()
    if not name or (bracket and not (rest.endswith(")") and rest[:-1])):
        raise UsageError(f'"{text}" is not a rule. Write a tool, or a tool and a pattern: bash(npm test*)')
    if not bracket:
        return Rule(name, verdict, tier=tier, origin=origin)
    pattern = rest[:-1]
    tools = frozenset(ALIASES.get(name, (name,)))
    if tools <= COMMAND_TOOLS:
        return Rule(name, verdict, command=pattern, tier=tier, origin=origin)
    if tools <= PATH_TOOLS:
        return Rule(name, verdict, path=pattern, tier=tier, origin=origin)
    raise UsageError(f'"{text}" is not a rule: {name} takes no pattern')


def decide(query: Query, *, mode: Mode, rules: Sequence[Rule] = (), grants: Iterable[Grant] = ()) -> Decision:
    """The verdict on one call. `rules` are in tier order (see `in_tier_order`)."""
    matching = [rule for rule in rules if _matches(rule, query)]
    for rule in matching:
        if rule.verdict == "deny":
            return _by_rule(rule)
    if grant := _granted(query, grants):
        return Decision(verdict="allow", decided_by="grant", rule=grant.grant_id)
    if matching:
        return _by_rule(matching[0])
    if query.agent_default is not None:
        reason = "AgentDenied" if query.agent_default == "deny" else None
        return Decision(verdict=query.agent_default, decided_by="agent", reason=reason)
    return _by_mode(query, mode)


def in_tier_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Higher tiers first; inside a tier as written."""
    return tuple(sorted(rules, key=lambda rule: TIERS.index(rule.tier)))


def evaluate(rules: Iterable[Rule], tool_name: str) -> tuple[Verdict, Rule | None]:
    """First match over tool names alone, and the rule that matched; a tool nothing matches is asked about."""
    for rule in rules:
        if fnmatchcase(tool_name, rule.tool):
            return rule.verdict, rule
    return "ask", None


_ACTIONS: Mapping[Verdict, str] = {"allow": "allowed", "ask": "approval_required", "deny": "denied"}


def explanation(query: Query, decision: Decision, mode: Mode, safety_notes: Sequence[str] = ()) -> str:
    """One line that says everything a decision rests on."""
    facts = [
        f"mode={mode} tool={query.tool} risk={query.risk} action={_ACTIONS[decision.verdict]}",
        f"decided_by={decision.decided_by}",
    ]
    if decision.rule:
        facts.append(f"rule={decision.rule}" + (f" ({decision.origin})" if decision.origin else ""))
    if query.policy_file:
        facts.append("it changes what later runs obey")
    return "; ".join((*facts, *safety_notes))


class Permissions:
    """The permissions of one session: what was configured, and what changes while it runs.

    `yes` answers every question with yes; it lifts no denial. `mode` is asked at every decision: a session's mode
    is a fold over its events and may change while it runs.
    """

    def __init__(
        self,
        *,
        folders: SessionFolders,
        mode: Callable[[], Mode] = lambda: "default",
        rules: Iterable[Rule] = (),
        yes: bool = False,
        agent_default: Verdict | None = None,
    ) -> None:
        self._mode = mode
        self.yes = yes
        self._folders = folders
        self._rules = in_tier_order(rules)
        self._agent_default: Verdict | None = agent_default
        self._grants: dict[str, Grant] = {}

    @property
    def mode(self) -> Mode:
        return self._mode()

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._rules

    @property
    def grants(self) -> tuple[Grant, ...]:
        return tuple(self._grants.values())

    def query(self, call: ToolCall) -> Query:
        """What there is to decide about a guarded call."""
        command = next((subject.value for subject in call.subjects if subject.kind == "command"), None)
        paths = tuple(subject for subject in call.subjects if subject.kind == "path" and command is None)
        names = tuple(self._name(subject.resolved) for subject in paths)
        writes = any(subject.access == "write" for subject in paths)
        policy_file = writes and any(is_policy_file(name.shown) for name in names)
        risk = call.definition.risk
        inside = all(self._folders.place(subject.resolved) != "outside" for subject in paths)
        return Query(
            tool=call.name,
            risk="dangerous" if policy_file else risk,
            command=command,
            paths=names,
            quiet=(risk == "read" and inside) or not (call.mutating or call.subjects),
            policy_file=policy_file,
            agent_default=self._agent_default,
        )

    def decide(self, query: Query) -> Decision:
        return decide(query, mode=self.mode, rules=self._rules, grants=self.grants)

    def remember(self, grant: GrantAdded) -> None:
        """Takes a grant into this session. An empty pattern stands for the whole tool."""
        self._grants[grant.grant_id] = Grant(
            grant_id=grant.grant_id, tool=grant.tool, subject=grant.pattern or None
        )

    def revoke(self, grant_id: str) -> bool:
        """Forgets a grant. False when there is none of this id."""
        return self._grants.pop(grant_id, None) is not None

    def _name(self, resolved: str) -> PathName:
        inside = self._folders.place(resolved) == "workspace"
        return PathName(absolute=resolved, relative=self._folders.shown(resolved) if inside else None)


def _matches(rule: Rule, query: Query) -> bool:
    if not tool_matches(rule.tool, query.tool):
        return False
    if rule.verdict == "allow":
        return _matches_exactly(rule, query)
    return _matches_generously(rule, query)


def _matches_exactly(rule: Rule, query: Query) -> bool:
    """Everything the call is about must match."""
    if query.policy_file and rule.path is None:
        return False
    if rule.command is not None and not (
        query.command is not None and command_matches_exactly(rule.command, query.command)
    ):
        return False
    if rule.path is None:
        return True
    return bool(query.paths) and all(
        path_matches_exactly(rule.path, _names(path, rule.path)) for path in query.paths
    )


def _matches_generously(rule: Rule, query: Query) -> bool:
    """One thing the call is about is enough."""
    if rule.command is not None and not (
        query.command is not None and command_matches_generously(rule.command, query.command)
    ):
        return False
    if rule.path is None:
        return True
    return any(path_matches_generously(rule.path, (path.shown, path.absolute)) for path in query.paths)


def _names(path: PathName, pattern: str) -> tuple[str, ...]:
    """An absolute pattern is about absolute names, any other about the workspace."""
    if pattern.startswith("/"):
        return (path.absolute,)
    return (path.relative,) if path.relative is not None else ()


def _granted(query: Query, grants: Iterable[Grant]) -> Grant | None:
    """A grant that covers the call: one for the tool, or literal ones for everything it is about."""
    mine = [grant for grant in grants if grant.tool == query.tool]
    subjects = [query.command] if query.command is not None else [path.shown for path in query.paths]
    literal = {grant.subject: grant for grant in mine if grant.subject is not None}
    if subjects and all(subject in literal for subject in subjects):
        return literal[subjects[0]]
    if query.policy_file:
        return None
    return next((grant for grant in mine if grant.subject is None), None)


def _by_rule(rule: Rule) -> Decision:
    return Decision(
        verdict=rule.verdict,
        decided_by="rule",
        rule=rule.shown,
        origin=rule.origin or rule.tier,
        reason="RuleDenied" if rule.verdict == "deny" else None,
        note=rule.reason,
    )


def _by_mode(query: Query, mode: Mode) -> Decision:
    cell = MODE_TABLE[mode].get(query.risk)
    if cell is None:
        return Decision(verdict="ask", decided_by="default")
    verdict = cell.quiet if query.quiet else cell.otherwise
    return Decision(
        verdict=verdict, decided_by="mode", rule=mode, reason="ModeDenied" if verdict == "deny" else None
    )
