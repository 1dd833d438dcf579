"""`bridle tools`: list the tools of the model with risk and origin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import msgspec

from bridle.app.features.tool_module_source import counting_modules, find_modules
from bridle.app.sources.plugins import within_packs
from bridle.base.process.installation import is_map_installed
from bridle.cli.console import aligned, say_json, say_lines
from bridle.cli.option_values import settings_here
from bridle.cli.policy.trust import stored_approvals
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders
from bridle.config.tiers import Tiers
from bridle.context.skills.session_skills import Offered, SessionSkills, skill_tool
from bridle.engine.conversation import Conversation
from bridle.engine.tools import BUILTIN, Tool, ToolOrigin
from bridle.plugin.loading import load_plugins
from bridle.protocol.errors import UsageError
from bridle.protocol.events import DurableEvent
from bridle.tools.builtin import builtin_tools, in_packs
from bridle.tools.jobs import Jobs
from bridle.tools.repo_map import repo_map_tool


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as people choose between them. `about` is the first sentence of what the model reads."""

    name: str
    risk: str
    concurrency: str
    side_effect: str
    source: str
    trusted: bool
    about: str
    safety_notes: tuple[str, ...]


def tools(parsed: Args, env: Env) -> int:
    tiers = _settings(parsed, env)
    packs = None if tiers is None else tiers.get("tools.packs")
    uses_skills = skill_tool(SessionSkills(lambda: Offered(skills={})), Conversation)
    built_in = (*in_packs(builtin_tools(Jobs(_nothing)), packs), *_map(tiers), uses_skills)
    listed = [_row(tool, BUILTIN) for tool in built_in]
    listed += _of_plugins(tiers, packs)
    listed += _of_modules(tiers, env)
    if parsed.json:
        return say_json(listed)
    return say_lines(_lines(listed))


def _map(tiers: Tiers | None) -> Iterator[Tool]:
    if is_map_installed() and (tiers is None or tiers.get("context.repo_map") != "off"):
        yield repo_map_tool("")


def _settings(parsed: Args, env: Env) -> Tiers | None:
    try:
        folders(env)
    except UsageError:  # nobody's settings are read without a home, and nobody lists a plugin
        return None
    return settings_here(parsed, env)


def _of_plugins(tiers: Tiers | None, packs: Sequence[str] | None) -> list[ToolRow]:
    if tiers is None or not tiers.get("plugins.enabled"):
        return []
    features = within_packs([plugin.feature for plugin in load_plugins(tiers)], packs)
    return [_row(tool, feature.origin) for feature in features for tool in feature.tools]


def _of_modules(tiers: Tiers | None, env: Env) -> list[ToolRow]:
    """The tools that are files, by their names: none is run to be listed."""
    cwd = os.getcwd()
    if tiers is None:
        return []
    found = list(find_modules(folders(env), os.path.realpath(cwd)))
    project_too = bool(tiers.get("tools.project_modules"))
    rows: list[ToolRow] = []
    for one in found:
        counting, said = counting_modules([one], stored_approvals(env), project_too=project_too)
        about = said[0].data["problem"] if said else "a tool of its own; it says in a session what it does"
        row = ToolRow(
            name=one.file.name,
            risk="shell",
            concurrency="serial",
            side_effect="process",
            source=one.shown,
            trusted=bool(counting),
            about=about,
            safety_notes=(),
        )
        rows.append(row)
    return rows


def _row(tool: Tool, origin: ToolOrigin) -> ToolRow:
    return ToolRow(
        name=tool.name,
        risk=tool.risk,
        concurrency=tool.concurrency,
        side_effect=tool.side_effect,
        source=origin.path or origin.scope,
        trusted=origin.trusted,
        about=re.split(r"(?<=[.;])\s", tool.description, maxsplit=1)[0].rstrip(".;"),
        safety_notes=tool.safety_notes,
    )


def _lines(rows: list[ToolRow]) -> list[str]:
    heads = ("tool", "risk", "concurrency", "changes", "source", "what it does")
    cells = [
        (row.name, row.risk, row.concurrency.replace("_", "-"), row.side_effect, row.source, row.about)
        for row in rows
    ]
    return aligned([heads, *cells])


def _nothing(_event: DurableEvent) -> None:
    """No command runs in the background of a list."""
