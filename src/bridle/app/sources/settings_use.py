"""Check settings that only their users can judge: hooks, rules, log levels.

The table of settings knows types. A session would refuse or say these; whoever validates wants to know before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from bridle.app.records.operational_log import wanted_levels
from bridle.app.sources.hook_feature import written_hook
from bridle.app.user.settings import decoded_agents, decoded_servers
from bridle.base.text.spelling import nearest
from bridle.config.origins import BadSetting
from bridle.config.problems import Problem, shown
from bridle.config.setting_table import key_of
from bridle.config.tiers import Tiers
from bridle.control.listening_socket import tcp_address
from bridle.plugin.loading import as_problem, idle_sections, load_plugins
from bridle.protocol.errors import BridleError, UsageError
from bridle.safety.hooks.definitions import BadHook, hook_from
from bridle.safety.patterns import ALIASES
from bridle.safety.rules import Rule, parse_rule
from bridle.tools.builtin import PACKS, builtin_names
from bridle.tools.person_tools import EXIT_PLAN_MODE

COMING = frozenset({"delegate_agent", "memory", "repo_map", "skill", "tool_search"})
"""Tools of ours that a session has or has not, by its settings and servers: a rule about one is no slip."""


def rules_without_a_tool(rules: Iterable[Rule], tools: Collection[str]) -> Iterator[tuple[Rule, str]]:
    """Rules about a tool that is not there, each with a clause that says so: a denial that denies nothing looks like
    one that does. A pattern of names, and tools of servers that may come, are left alone.
    """
    for rule in rules:
        name = rule.tool
        if (
            name in tools
            or name in COMING
            or name in ALIASES
            or name.startswith("mcp__")
            or not name.isidentifier()
        ):
            continue
        near = nearest(name, (*tools, *ALIASES))
        yield (
            rule,
            f'there is no tool "{shown(name)}"{f" (nearest: {near})" if near else ""}; this rule does nothing',
        )


def all_problems(tiers: Tiers) -> list[Problem]:
    """Everything a session would refuse or say, errors first. Whose types are wrong is not looked at further."""
    found = list(tiers.problems)
    if not any(problem.severity == "error" for problem in found):
        plugins = _plugins(tiers)
        found += plugins.problems
        found += (*_hooks(tiers), *_servers(tiers), *_rules(tiers, plugins.tools), *_levels(tiers))
        found += (*_packs(tiers, plugins.names), *_listen(tiers))
        found += _agents(tiers)
        found += _not_used_yet(tiers)
    return sorted(found, key=lambda problem: problem.severity != "error")


def _hooks(tiers: Tiers) -> Iterator[Problem]:
    for entry in tiers.written("hooks"):
        scope = written_hook(entry).scope
        try:
            hook_from(entry.value, scope=scope)
        except BadHook as bad:
            yield entry.origin.problem("error" if scope == "user" else "warning", "hooks", bad.problem)


def _servers(tiers: Tiers) -> Iterator[Problem]:
    tables = tiers.get("mcp_servers")
    if not tables:
        return
    for found in decoded_servers(tiers, tables):
        if isinstance(found, BadSetting):
            yield found.problem


def _agents(tiers: Tiers) -> Iterator[Problem]:
    if not tiers.get("agents"):
        return
    for found in decoded_agents(tiers):
        if isinstance(found, BadSetting):
            yield found.problem


class _Plugins(NamedTuple):
    """What is to be said of the plugins that are listed, and the tools they bring."""

    problems: Sequence[Problem] = ()
    tools: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def _plugins(tiers: Tiers) -> _Plugins:
    if tiers.get("plugins") is None:
        return _Plugins()
    try:
        loaded = load_plugins(tiers)
    except BridleError as refused:
        return _Plugins([as_problem(tiers, refused)])
    idle = idle_sections(tiers, [plugin.name for plugin in loaded])
    said = [warning for plugin in loaded for warning in plugin.warnings]
    tools = tuple(tool.name for plugin in loaded for tool in plugin.feature.tools)
    return _Plugins([*said, *idle], tools, tuple(plugin.name for plugin in loaded))


def _rules(tiers: Tiers, plugged: tuple[str, ...]) -> Iterator[Problem]:
    written = tiers.written("permissions.rules")
    listed = [
        (key, text, source.origin((key, index)))
        for source in tiers.sources
        for key in ("disallowed_tools", "allowed_tools")
        for index, text in enumerate(source.values.get(key, ()))
    ]
    if not written and not listed:
        return
    tools = (*builtin_names(), EXIT_PLAN_MODE, *plugged)
    for entry in written:
        rule = Rule(tool=entry.value["tool"], verdict=entry.value["verdict"])
        for _, problem in rules_without_a_tool([rule], tools):
            yield entry.origin.problem("warning", "permissions.rules", problem)
    for key, text, origin in listed:
        try:
            rule = parse_rule(text, "deny")
        except UsageError:
            problem = f'"{shown(text)}" is not a tool, nor a tool and a pattern like bash(npm test*)'
            yield origin.problem("error", key, problem)
        else:
            for _, problem in rules_without_a_tool([rule], tools):
                yield origin.problem("warning", key, problem)


def _not_used_yet(tiers: Tiers) -> Iterator[Problem]:
    for path, capability in tiers.unused.items():
        origin, key = tiers.origin(path), key_of(path)
        assert origin is not None, "somebody has written it"
        yield origin.problem("warning", key, f"{key} is not used yet (it comes with {capability})")


def _levels(tiers: Tiers) -> Iterator[Problem]:
    origin = tiers.origin("log.levels")
    if origin is None:
        return
    try:
        wanted_levels(tiers.get("log.levels"))
    except BridleError as refused:
        yield origin.problem("error", "log.levels", refused.message)


def packs_that_are_none(packs: Sequence[str], plugged: Sequence[str]) -> Iterator[str]:
    """A clause for each name of a group of tools that nobody has. `plugged` are the names of plugins."""
    known = (*PACKS, *plugged)
    for pack in packs:
        if pack not in known:
            yield f'tools.packs: there is no pack "{shown(pack)}" (there are {", ".join(known)})'


def _packs(tiers: Tiers, plugged: Sequence[str]) -> Iterator[Problem]:
    origin = tiers.origin("tools.packs")
    if origin is not None:
        for problem in packs_that_are_none(tiers.get("tools.packs"), plugged):
            yield origin.problem("warning", "tools.packs", problem)


def _listen(tiers: Tiers) -> Iterator[Problem]:
    origin = tiers.origin("engine.listen")
    if origin is None:
        return
    try:
        tcp_address(tiers.get("engine.listen"), "engine.listen")
    except UsageError as refused:
        yield origin.problem("error", "engine.listen", refused.message)
