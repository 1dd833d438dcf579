"""Collect the agents of a session: built-in, settings, files, plugins, bundles, project.

A file of a project, or of a folder that settings list, counts once a person agreed to its very bytes; before that only
its name is told. A name belongs to the first that has it, in that order: what a project brings takes nobody's.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from bridle.agents.agent_settings import AgentSettings
from bridle.agents.builtin_agents import BUILTIN_AGENTS
from bridle.agents.definition import AgentDefinition, AgentOrigin, AgentRegistry, AgentScope
from bridle.base.fs.files import repository_root
from bridle.base.text.spelling import nearest
from bridle.base.text.terminal_text import visible
from bridle.config.bundles import counting_bundles
from bridle.config.folders import AGENTS, Folders, home_of, project_folder
from bridle.context.consent import AT_A_DESK, IN_CI
from bridle.protocol.errors import CommandRefused, sentence
from bridle.protocol.events import Notice
from bridle.providers.presets import PRESETS
from bridle.safety.trust import Approvals
from bridle.safety.trust.trust_items import TrustItem
from bridle.safety.trust.trust_questions import ReviewedText
from bridle.tools.builtin import builtin_names
from bridle.tools.person_tools import EXIT_PLAN_MODE

if TYPE_CHECKING:
    from bridle.agents.agent_files import AgentFile, AgentProblem
    from bridle.app.user.settings import SessionSettings

OTHER_NAMES: Final[Mapping[str, str]] = {"code": "build"}
"""What an agent of ours is called besides."""
_MOST_NAMED: Final = 20
_ORDER: Final[Mapping[AgentScope, int]] = {
    scope: number
    for number, scope in enumerate(("builtin", "code", "settings", "user", "plugin", "bundle", "project"))
}


class AgentPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of agents. With `root` a person must agree to each of its files, and none may lead out of it."""

    folder: str
    origin: AgentOrigin
    root: str = ""


class WaitingAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A file that wants to be an agent and that nobody agreed to: by its name alone."""

    stem: str
    shown: str


class FoundAgents(msgspec.Struct, frozen=True, kw_only=True):
    """All agents that count, the files that wait for a person, and what is to be said of the rest."""

    registry: AgentRegistry
    waiting: tuple[WaitingAgent, ...] = ()
    notices: tuple[Notice, ...] = ()


def agents_of_session(
    settings: SessionSettings,
    *,
    where: Folders,
    cwd: str,
    env: Mapping[str, str],
    approvals: Approvals,
    code: Sequence[AgentDefinition] = (),
    tools: Collection[str] = (),
) -> FoundAgents:
    """The agents of a session in `cwd`. `code` are those a program brings, `tools` names what it has beside ours."""
    return find_agents(
        settings.agents or AgentSettings(),
        where=where,
        cwd=cwd,
        env=env,
        approvals=approvals,
        code=code,
        tools=tools,
        providers=tuple(settings.providers),
    )


def chosen_agent(registry: AgentRegistry, name: str, waiting: Sequence[WaitingAgent] = ()) -> AgentDefinition:
    """The agent of this name to talk with. Raises `CommandRefused` that names those there are."""
    agent = registry.get(OTHER_NAMES.get(name, name))
    if agent is not None and agent.is_selectable:
        return agent
    waits = next((one for one in waiting if one.stem == name), None) if agent is None else None
    if waits is not None:
        raise CommandRefused("AgentNotTrusted", agent=name, path=visible(waits.shown, newlines=False))
    names = [one.name for one in registry.primary]
    near = nearest(name, names)
    known = ", ".join(names) + (f" (nearest: {near})" if near else "")
    reason = "UnknownAgent" if agent is None else "AgentNotSelectable"
    raise CommandRefused(reason, agent=visible(name, newlines=False)[:100], known=known)


def find_agents(
    settings: AgentSettings,
    *,
    where: Folders,
    cwd: str | None,
    env: Mapping[str, str],
    approvals: Approvals,
    code: Sequence[AgentDefinition] = (),
    tools: Collection[str] = (),
    providers: Collection[str] | None = None,
) -> FoundAgents:
    """Every agent for a session in `cwd`, or for none in particular. Without `providers` nobody asks for theirs."""
    places = list(agent_places(settings.folders, where=where, cwd=cwd, env=env))
    if not (places or code or settings.definitions or settings.bundles):
        return FoundAgents(registry=AgentRegistry(BUILTIN_AGENTS))
    agents: list[AgentDefinition] = [*code, *settings.definitions]
    waiting: list[WaitingAgent] = []
    notices: list[Notice] = []
    for place in places:
        _add_files(place, approvals, agents, waiting, notices)
    agents += _bundle_agents(settings.bundles, where, notices)
    registry = AgentRegistry(BUILTIN_AGENTS)
    known_tools = _tool_names(tools)
    for agent in sorted(agents, key=lambda one: _ORDER[one.origin.scope]):
        _register(registry, agent, known_tools, providers, notices)
    if waiting:
        notices.append(_waiting_notice(waiting, env))
    return FoundAgents(registry=registry, waiting=tuple(waiting), notices=tuple(notices))


def agent_places(
    listed: Sequence[str], *, where: Folders, cwd: str | None, env: Mapping[str, str]
) -> Iterator[AgentPlace]:
    """The folders that are there: the person's own, that of the project, and those that settings list."""
    own = os.path.join(where.config, AGENTS)
    if os.path.isdir(own):
        yield AgentPlace(folder=own, origin=AgentOrigin(scope="user", place=_short(own, home_of(env))))
    if cwd is None:
        return
    project = project_folder(cwd)
    theirs = [os.path.join(project, AGENTS)] if project else []
    if not (theirs and os.path.isdir(theirs[0])) and not listed:
        return
    home, root = home_of(env), repository_root(os.path.realpath(cwd))
    for folder in dict.fromkeys((*theirs, *(_listed(one, root, home) for one in listed))):
        if os.path.isdir(folder) and os.path.realpath(folder) != os.path.realpath(own):
            inside = os.path.realpath(folder).startswith(f"{root}/")
            shown = os.path.relpath(folder, root) if inside else _short(folder, home)
            origin = AgentOrigin(scope="project", place=shown)
            yield AgentPlace(folder=folder, origin=origin, root=root if inside else os.path.dirname(folder))


def _listed(name: str, root: str, home: str) -> str:
    return os.path.normpath(
        os.path.join(home, name[2:]) if name.startswith("~/") else os.path.join(root, name)
    )


def _short(path: str, home: str) -> str:
    return f"~/{os.path.relpath(path, home)}" if home and path.startswith(f"{home}/") else path


# What lies in a place


def _files(place: AgentPlace) -> Iterator[AgentFile]:
    from bridle.agents.agent_files import find_agent_files

    return find_agent_files(place.folder, place.origin, within=place.root)


def _add_files(
    place: AgentPlace,
    approvals: Approvals,
    agents: list[AgentDefinition],
    waiting: list[WaitingAgent],
    notices: list[Notice],
) -> None:
    from bridle.agents.agent_files import MAX_FILES, agent_paths

    if (count := len(agent_paths(place.folder))) > MAX_FILES:
        notices.append(
            _bad(f"{place.origin.place}: only the first {MAX_FILES} of its {count:,} files are read")
        )
    for file in _files(place):
        shown = os.path.join(place.origin.place, os.path.basename(file.path))
        trusted = not place.root or agent_item(file, place).is_trusted(approvals)
        if file.read.agent is None:
            problem = file.read.problems[0]
            told = trusted or not problem.line  # of what nobody agreed to nothing is repeated
            notices.append(
                _bad(problem_words(shown, problem) if told else f"{shown} is no agent as it stands")
            )
        elif trusted:
            agents.append(file.read.agent)
        else:
            waiting.append(WaitingAgent(stem=file.stem, shown=shown))


def problem_words(shown: str, problem: AgentProblem) -> str:
    """`.bridle/agents/x.md:3: mode: …`."""
    return f"{shown}{f':{problem.line}' if problem.line else ''}: {problem.clause}"


def _bundle_agents(
    bundles: Sequence[str], where: Folders, notices: list[Notice]
) -> Iterator[AgentDefinition]:
    """Those of these bundles, where they are as the person agreed to them, in the namespaces of the bundles."""
    if not bundles:
        return
    from bridle.agents.agent_files import read_agent_file

    for bundle in counting_bundles(where.data, bundles):
        for path in bundle.agents:
            shown = f"bundle {bundle.name}: {path}"
            origin = AgentOrigin(scope="bundle", place=shown)
            read = read_agent_file(os.path.join(bundle.folder, path), origin, within=bundle.folder).read
            if read.agent is None:
                notices.append(_bad(problem_words(shown, read.problems[0])))
            else:
                yield msgspec.structs.replace(read.agent, name=f"{bundle.name}__{read.agent.name}")


def own_bundles(where: Folders) -> tuple[str, ...]:
    """Every bundle that counts, for whoever looks without a session."""
    if not os.path.isdir(os.path.join(where.data, "bundles")):
        return ()

    return tuple(bundle.folder for bundle in counting_bundles(where.data))


# A person's word


def agent_item(file: AgentFile, place: AgentPlace) -> TrustItem:
    """A file as what a person agrees to."""
    path = os.path.relpath(file.path, place.root)
    return TrustItem(
        kind="agent",
        root=place.root,
        path=path,
        shown=path,
        digest=file.sha256,
        data=file.data,
        reviewed=ReviewedText(shown=path, text=file.data.decode("utf-8", "replace"), kind="agent"),
    )


def agent_items(
    listed: Sequence[str], *, where: Folders, cwd: str, env: Mapping[str, str]
) -> Iterator[TrustItem]:
    """The files here that want a person's word, agreed to or not."""
    for place in agent_places(listed, where=where, cwd=cwd, env=env):
        if place.root:
            yield from (agent_item(file, place) for file in _files(place) if file.read.agent is not None)


# What counts


def _register(
    registry: AgentRegistry,
    agent: AgentDefinition,
    tools: Collection[str],
    providers: Collection[str] | None,
    notices: list[Notice],
) -> None:
    place = visible(agent.origin.place or agent.origin.scope, newlines=False)
    profile = agent.provider.profile
    if profile is not None and providers is not None and profile not in _provider_names(providers):
        listed = ", ".join(sorted(providers)) or "none"
        clause = f'the agent {agent.name} names the provider "{profile}", which no settings name ({listed})'
        notices.append(_bad(f"{place}: {visible(clause, newlines=False)}"))
        return
    if (taken := registry.register(agent)) is not None:
        first = taken.has_it.origin
        data = {"place": place, "agent": agent.name, "first": first.place or first.scope}
        notices.append(Notice(reason="AgentNameTaken", message=sentence("AgentNameTaken", data), data=data))
        return
    missing = [one for one in (agent.tools or ()) if one not in tools and not _may_come(one)]
    if missing:
        data = {"place": place, "agent": agent.name, "tools": visible(", ".join(missing), newlines=False)}
        notices.append(
            Notice(reason="AgentToolUnknown", message=sentence("AgentToolUnknown", data), data=data)
        )


def _provider_names(configured: Collection[str]) -> set[str]:
    return {*configured, *(preset.name for preset in PRESETS)}


def _tool_names(more: Iterable[str]) -> frozenset[str]:
    return frozenset((*builtin_names(), EXIT_PLAN_MODE, "delegate_agent", "memory", "skill", *more))


def _may_come(tool: str) -> bool:
    """Whether it is a pattern, or a tool of a server, of which nobody knows yet."""
    return tool.startswith("mcp__") or any(sign in tool for sign in "*?[")


# What is said


def _bad(problem: str) -> Notice:
    data = {"problem": visible(problem, newlines=False)[:500]}
    return Notice(reason="BadAgent", message=sentence("BadAgent", data), data=dict(data))


def _waiting_notice(waiting: Sequence[WaitingAgent], env: Mapping[str, str]) -> Notice:
    """Names every file that is left out, once."""
    names = [visible(one.shown, newlines=False) for one in waiting]
    more = len(names) - _MOST_NAMED
    listed = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    what = "Agents that are" if len(names) > 1 else "An agent that is"
    how = IN_CI if env.get("CI") else AT_A_DESK
    text = f"{what} not trusted here {'were' if len(names) > 1 else 'was'} not used: {listed}. {how}"
    return Notice(reason="NotTrusted", message=text, data={"path": listed, "agents": names})
