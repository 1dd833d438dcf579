"""Rules: how they are written, and which calls they are about. Pure.

An allow rule must not match more than its author meant: everything a call is about has to match, and a script passes
only if each of its parts does or is harmless. Deny and ask rules must not be talked around: one part, one file is
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec

from bridle.base.fs.paths import SessionFolders
from bridle.protocol.errors import UsageError
from bridle.protocol.events import KEY_COVERS, Verdict
from bridle.safety.call_risk import CallFacts
from bridle.safety.grants import Grant
from bridle.safety.patterns import (
    ALIASES,
    command_matches_exactly,
    command_matches_generously,
    literal_pattern,
    part_matches_exactly,
    path_matches_exactly,
    path_matches_generously,
    tool_matches,
)
from bridle.safety.touched_files import PathName, SessionPlaces
from bridle.safety.url_rules import url_matches_exactly, url_matches_generously, url_pattern
from bridle.shell.command_facts import Part

RuleTier: TypeAlias = Literal["flags", "local", "project", "user", "profile", "builtin"]
TIERS: tuple[RuleTier, ...] = ("flags", "local", "project", "user", "profile", "builtin")

PATH_TOOLS = frozenset({"read_file", "write_file", "edit_file", "apply_patch", "grep", "glob", "ls"})
COMMAND_TOOLS = frozenset({"bash"})
URL_TOOLS = frozenset({"web_fetch"})
_OWN_TIERS: frozenset[RuleTier] = frozenset({"flags", "user"})
"""Where a rule is the person's own word; a project's files speak for whoever wrote them."""
EDITS = "edit"
"""The word for every tool that changes files, in rules and in grants."""


class Rule(msgspec.Struct, frozen=True):
    """A pattern and a verdict. `origin` says where it was written, for people: `user config, line 12`.

    `program` is what a grant by key holds: it allows what that would, a program with harmless arguments inside the
    workspace. A rule that asks may want the yes of more than one person: of so many as `keys` says.
    """

    tool: str
    verdict: Verdict
    path: str | None = None
    command: str | None = None
    url: str | None = None
    reason: str | None = None
    tier: RuleTier = "user"
    origin: str = ""
    program: str | None = None
    keys: int = 1

    @property
    def shown(self) -> str:
        pattern = self.command or self.path or self.url or (self.program and f"{self.program} {KEY_COVERS}")
        return f"{self.tool}({pattern})" if pattern else self.tool


def parse_rule(text: str, verdict: Verdict, *, tier: RuleTier = "flags", origin: str = "") -> Rule:
    """A rule from its short form: `edit`, `mcp__*`, `bash(npm test*)`, `Read(docs/**)`.

    Raises `UsageError`.
    """
    name, bracket, rest = text.strip().partition("(")
    name = name.strip()
    if not name or ")" in name or (bracket and not (rest.endswith(")") and rest[:-1])):
        raise UsageError(f'"{text}" is not a rule. Write a tool, or a tool and a pattern: bash(npm test*)')
    if not bracket:
        return Rule(name, verdict, tier=tier, origin=origin)
    pattern = rest[:-1]
    tools = frozenset(ALIASES.get(name, (name,)))
    if tools <= COMMAND_TOOLS:
        return Rule(name, verdict, command=pattern, tier=tier, origin=origin)
    if tools <= PATH_TOOLS:
        return Rule(name, verdict, path=pattern, tier=tier, origin=origin)
    if tools <= URL_TOOLS:
        try:
            url_pattern(pattern)
        except ValueError as problem:
            raise UsageError(f'"{text}" is not a rule: {problem}') from None
        return Rule(name, verdict, url=pattern, tier=tier, origin=origin)
    raise UsageError(f'"{text}" is not a rule: there is no tool "{name}" that takes a pattern')


def in_tier_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Higher tiers first; inside a tier as written."""
    return tuple(sorted(rules, key=lambda rule: TIERS.index(rule.tier)))


def named_by_user(
    rules: Iterable[Rule], folders: SessionFolders
) -> Callable[[str, Literal["read", "write"]], bool]:
    """Whether a rule of the person's own allows reading or writing exactly this absolute path.

    A rule with a wildcard means many files and names none; what a project's files say is not the person's word.
    """
    own = [
        rule
        for rule in rules
        if rule.verdict == "allow" and rule.tier in _OWN_TIERS and rule.path and not _is_wild(rule.path)
    ]
    place = SessionPlaces(folders=folders)

    def named(path: str, access: Literal["read", "write"]) -> bool:
        tools = ALIASES[EDITS] if access == "write" else ("read_file",)
        name = place.name(path)
        return any(
            path_matches_exactly(rule.path or "", _names(name, rule.path or ""))
            and any(tool_matches(rule.tool, tool) for tool in tools)
            for rule in own
        )

    return named


def urls_of_user(rules: Iterable[Rule]) -> tuple[str, ...]:
    """The addresses that rules of the person's own allow to be fetched."""
    return tuple(
        rule.url for rule in rules if rule.url and rule.verdict == "allow" and rule.tier in ("flags", "user")
    )


def denied_paths(rules: Iterable[Rule], folders: SessionFolders) -> Callable[[str], bool] | None:
    """Whether a rule denies reading an absolute path, itself or with a folder it is in; None where there is none."""
    denying = [
        rule.path
        for rule in rules
        if rule.verdict == "deny" and rule.path and tool_matches(rule.tool, "read_file")
    ]
    if not denying:
        return None
    place = SessionPlaces(folders=folders)

    def denied(path: str) -> bool:
        name = place.name(path)
        return any(path_matches_generously(pattern, (name.shown, name.absolute)) for pattern in denying)

    return denied


def _is_wild(pattern: str) -> bool:
    return any(character in pattern for character in "*?[") or pattern.endswith("/")


def evaluate(rules: Iterable[Rule], tool_name: str) -> tuple[Verdict, Rule | None]:
    """First match over tool names alone, and the rule that matched; a tool nothing matches is asked about."""
    for rule in rules:
        if fnmatchcase(tool_name, rule.tool):
            return rule.verdict, rule
    return "ask", None


def first_match(query: CallFacts, rules: Sequence[Rule]) -> Rule | None:
    """The first rule that is about the call and does not deny, or the one that lets a script pass part by part."""
    rules = [rule for rule in rules if rule.verdict != "deny"]
    first = next((rule for rule in rules if matches(rule, query)), None)
    if first is not None and first.verdict == "allow":
        return first
    return _part_by_part(query, rules) or first


def _part_by_part(query: CallFacts, rules: Sequence[Rule]) -> Rule | None:
    """A rule that allows a script, of which each part is allowed by the first rule about it, or quiet and without one.

    A rule that asks about the script as a whole and about no single part of it is not passed over.
    """
    if not query.separable or query.for_person:
        return None
    allowing: Rule | None = None
    for part in query.parts:
        rule = next((rule for rule in rules if _is_about(rule, query, part)), None)
        if rule is None and part not in query.unproven:
            continue
        if rule is None or rule.verdict != "allow":
            return None
        allowing = rule
    asks = (rule for rule in rules if rule.verdict == "ask" and matches(rule, query))
    if all(any(_is_about(ask, query, part) for part in query.parts) for ask in asks):
        return allowing
    return None


def _is_about(rule: Rule, query: CallFacts, part: Part) -> bool:
    """Whether a rule speaks about this part by itself; one with a path speaks about all parts or none."""
    if not tool_matches(rule.tool, query.tool):
        return False
    if rule.path is not None:
        return rule.verdict != "allow" and _matches_generously(rule, query)
    if rule.verdict != "allow":
        return all(command_matches_generously(pattern, part.text, (part,)) for pattern in _patterns_of(rule))
    if rule.program is not None and query.key != rule.program:
        return False
    return rule.command is None or part_matches_exactly(rule.command, part)


def matches(rule: Rule, query: CallFacts) -> bool:
    if not tool_matches(rule.tool, query.tool):
        return False
    if rule.verdict == "allow":
        return _matches_exactly(rule, query)
    return _matches_generously(rule, query)


def _matches_exactly(rule: Rule, query: CallFacts) -> bool:
    """Everything the call is about must match. What is for a person alone must be named by a rule of their own."""
    if query.for_person and not (rule.tier in _OWN_TIERS and _names_literally(rule, query)):
        return False
    if rule.command is not None and not (
        query.command is not None and command_matches_exactly(rule.command, query.command)
    ):
        return False
    if rule.program is not None and query.key != rule.program:
        return False
    if rule.url is not None:
        return bool(query.urls) and all(url_matches_exactly(rule.url, url) for url in query.urls)
    if rule.path is None:
        return True
    if query.command is not None and not _only_about_files(query):
        return False
    return bool(query.paths) and all(
        path_matches_exactly(rule.path, _names(path, rule.path)) for path in query.paths
    )


def _names_literally(rule: Rule, query: CallFacts) -> bool:
    if rule.command is not None:
        return rule.command == query.command
    return rule.path is not None and not _is_wild(rule.path)


def _only_about_files(query: CallFacts) -> bool:
    """Whether naming the files of a command says all there is to say about it."""
    if query.script is None or query.unknown_paths:
        return False
    return query.script.command_class in ("read_only", "writes")


def _matches_generously(rule: Rule, query: CallFacts) -> bool:
    """One thing the call is about is enough."""
    for pattern in _patterns_of(rule):
        if query.command is None or not command_matches_generously(pattern, query.command, query.parts):
            return False
    if rule.url is not None:
        return any(url_matches_generously(rule.url, url) for url in query.urls)
    if rule.path is None:
        return True
    return any(path_matches_generously(rule.path, (path.shown, path.absolute)) for path in query.paths)


def _patterns_of(rule: Rule) -> list[str]:
    """What a rule that does not allow looks for in commands: a program is one with whatever arguments."""
    found = (rule.command, rule.program and f"{literal_pattern(rule.program)}*")
    return [pattern for pattern in found if pattern]


def _names(path: PathName, pattern: str) -> tuple[str, ...]:
    """An absolute pattern is about absolute names, any other about the workspace."""
    if pattern.startswith("/"):
        return (path.absolute,)
    return (path.relative,) if path.relative is not None else ()


def rule_of(grant: Grant) -> dict[str, str]:
    """As settings have it: its text and nothing else, its program if harmless, or the tool."""
    if grant.subject is None:
        return {"tool": grant.tool, "verdict": "allow"}
    if grant.match == "key":
        return {"tool": grant.tool, "program": grant.subject, "verdict": "allow"}
    about = "command" if set(ALIASES.get(grant.tool, (grant.tool,))) <= COMMAND_TOOLS else "path"
    return {"tool": grant.tool, about: literal_pattern(grant.subject), "verdict": "allow"}


def promoted_words(grant: Grant) -> str:
    what = f"{grant.tool}({grant.subject})" if grant.subject else f"every {grant.tool} call"
    return f"{what} {KEY_COVERS}" if grant.match == "key" else what
