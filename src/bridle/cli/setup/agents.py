"""`bridle agents`: list, show, check and create agents."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from bridle.agents.agent_fields import name_problem
from bridle.agents.agent_files import ENDING, AgentProblem, agent_paths, read_agent, read_agent_file
from bridle.agents.agent_settings import AgentSettings
from bridle.agents.builtin_agents import BUILTIN_AGENTS
from bridle.agents.definition import AgentDefinition, AgentDelegation, AgentOrigin, AgentRegistry
from bridle.app.queries.agent_answers import agent_list
from bridle.app.sources.agent_sources import OTHER_NAMES, FoundAgents, agent_places, chosen_agent, find_agents
from bridle.app.sources.plugins import provider_sections
from bridle.app.user.settings import agent_settings, is_acked
from bridle.base.fs.files import write_new
from bridle.base.text.phrases import shortened
from bridle.base.text.spelling import meant_words
from bridle.base.text.terminal_text import visible, visible_line
from bridle.cli.console import aligned, say, say_json, say_lines, tell, terminal_columns
from bridle.cli.option_values import settings_here
from bridle.cli.policy.trust import stored_approvals
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.cells import width_of, wrapped
from bridle.clients.interaction.render.start_info import folder_words
from bridle.config.folders import AGENTS, PROJECT_FOLDER, folders, project_folder
from bridle.config.origins import CHOSEN_HERE
from bridle.config.project_choices import choose_agent
from bridle.config.tiers import Tiers
from bridle.plugin.loading import load_plugins
from bridle.protocol.errors import BridleError, CommandRefused, UsageError
from bridle.protocol.queries import AgentEntry

EXIT_PROBLEMS: Final = 1
_SESSION_PROVIDER: Final = "the session's"
_BEGINNING: Final = """\
---
name: {name}
description: {description}
# mode: all                 # primary: talked with only; subagent: sent by others only; all: both
# provider: NAME            # one of your providers; left out, that of the session
# tools: [read_file, grep, glob, ls]   # what it sees; left out, everything the session has
# permissions:              # only ever stricter than the session
#   - {{ tool: bash, decision: deny, reason: "it only reads" }}
# max_steps: 10             # model calls when another agent sends it
# delegation:               # also: background, worktree, allowed_agents
#   can_delegate: true      # with --multi-agent it may send others
# catalog:                  # what an agent that may send it is told
#   cost: cheap
#   use_when: [a change is done and somebody should look at it]
---

You are …. Say what you found, with files and lines.
"""


def agents(parsed: Args, env: Env) -> int:
    match parsed.action:
        case "show":
            return _show(parsed, env)
        case "check":
            return _check(parsed, env)
        case "new":
            return _new(parsed, env)
        case "use":
            return _use(parsed, env)
        case "forget":
            return _forget(parsed, env)
        case _:
            return _list(parsed, env)


def _tiers(parsed: Args, env: Env) -> Tiers:
    return settings_here(parsed, env, is_acked=is_acked(stored_approvals(env))).checked()


class ChosenAgent(msgspec.Struct, frozen=True, kw_only=True):
    """The agent that a session here would talk with, None where nobody chose one, and who says so."""

    agent: str | None = None
    said_by: str = ""


def agents_here(parsed: Args, env: Env) -> tuple[FoundAgents, ChosenAgent]:
    """The agents that a session here would have, and the one it would talk with. Nobody is asked."""
    tiers, where = _tiers(parsed, env), folders(env)
    settings, providers = agent_settings(tiers) or AgentSettings(), tuple(tiers.get("providers") or ())
    tools: tuple[str, ...] = ()
    if tiers.get("plugins.enabled"):
        loaded = load_plugins(tiers)
        more = (agent for plugin in loaded for agent in plugin.agents)
        settings = msgspec.structs.replace(settings, definitions=(*settings.definitions, *more))
        providers = tuple(provider_sections(tiers))
        tools = tuple(tool.name for plugin in loaded for tool in plugin.feature.tools)
    found = find_agents(
        settings,
        where=where,
        cwd=os.path.realpath(os.getcwd()),
        env=env,
        approvals=stored_approvals(env),
        tools=tools,
        providers=providers,
    )
    origin = tiers.origin("agent")
    return found, ChosenAgent(agent=settings.agent, said_by="" if origin is None else origin.shown)


def agent_names(env: Env) -> list[str]:
    return [one.name for one in agents_here(argparse.Namespace(), env)[0].registry.list()]


# Looking


def _list(parsed: Args, env: Env) -> int:
    found, chosen = agents_here(parsed, env)
    listed = agent_list(found, chosen.agent)
    if parsed.json:
        return say_json({**msgspec.to_builtins(listed), "chosen": chosen})
    for problem in listed.problems:
        tell(visible_line(problem))
    rows = [*_rows([one for one in listed.agents if not one.hidden]), *_chosen_words(chosen)]
    return say_lines(rows)


def _chosen_words(chosen: ChosenAgent) -> Iterator[str]:
    if chosen.agent is not None:
        undone = ". To forget it: bridle agents forget" if chosen.said_by == CHOSEN_HERE else ""
        yield visible_line(f"* {chosen.agent}: {chosen.said_by}{undone}")


def _rows(entries: Iterable[AgentEntry]) -> Iterator[str]:
    heads = ("agent", "mode", "provider", "cost", "source", "what it is for")
    rows = [heads, *map(_cells, entries)]
    lines = aligned(rows)
    columns = terminal_columns()
    if columns <= 0 or max(map(width_of, lines)) <= columns:
        yield from lines
        return
    indent = " " * (max(len(row[0]) for row in rows) + 3)
    for name, *facts, about in rows[1:]:
        yield from wrapped(f"{name:<{len(indent)}}{about}", columns, indent=indent)
        known = (fact for fact in facts if fact not in ("", _SESSION_PROVIDER))
        yield from wrapped(f"{indent}{' · '.join(known)}", columns, indent=indent)


def _cells(entry: AgentEntry) -> tuple[str, ...]:
    source = entry.source if entry.source == "builtin" else entry.place or entry.source
    if not entry.trusted:
        return (entry.name, "", "", "", source, "not trusted: bridle trust ack")
    name = f"{entry.name} *" if entry.chosen else entry.name
    return (
        name,
        entry.mode,
        entry.provider or _SESSION_PROVIDER,
        entry.cost,
        source,
        shortened(entry.description, 100),
    )


def _show(parsed: Args, env: Env) -> int:
    found, _chosen = agents_here(parsed, env)
    name = OTHER_NAMES.get(parsed.name, parsed.name)
    agent = found.registry.get(name)
    if agent is None:
        if waits := next((one for one in found.waiting if one.stem == name), None):
            raise CommandRefused("AgentNotTrusted", agent=name, path=waits.shown)
        for problem in agent_list(found, None).problems:  # perhaps it is there, and no agent as it stands
            tell(visible_line(problem))
        names = [one.name for one in found.registry.list()]
        shown, hint = visible_line(name)[:100], meant_words(name, names)
        raise UsageError(f'There is no agent "{shown}".{hint} Agents: {", ".join(names)}. See: bridle agents')
    if parsed.json:
        return say_json(agent)
    return say("\n".join(visible_line(line) for line in _facts(agent)) + f"\n{_prompt(agent)}")


def _prompt(agent: AgentDefinition) -> str:
    parts = "\n\n".join(filter(None, (agent.system, agent.append)))
    return f"\n{visible(parts)}\n" if parts else ""


def _facts(agent: AgentDefinition) -> Iterator[str]:
    yield f"{agent.name}  {agent.mode}  {agent.origin.scope}: {agent.origin.place}"
    yield agent.description
    yield f"provider: {agent.provider.profile or 'that of the session'}"
    yield f"tools: {'all of the session' if agent.tools is None else ', '.join(agent.tools) or 'none'}"
    if agent.hidden_tools:
        yield f"without: {', '.join(agent.hidden_tools)}"
    for rule in agent.rules:
        limit = rule.path or rule.command
        reason = f" ({rule.reason})" if rule.reason else ""
        yield f"rule: {rule.verdict} {rule.tool}{f'({limit})' if limit else ''}{reason}"
    if agent.default_verdict is not None:
        yield f"beside its rules: {agent.default_verdict}"
    if agent.permission_mode is not None:
        yield f"mode: {agent.permission_mode}, where that is stricter than the session's"
    delegation, catalog = agent.delegation, agent.catalog
    sends = "may send others" if delegation.can_delegate else "sends nobody"
    sent = "can be sent" if agent.is_callable else "is not sent"
    yield f"delegation: {sends}, {sent}, {agent.max_steps} steps{''.join(_sent_how(delegation))}"
    if delegation.allowed_agents is not None:
        yield f"may send: {', '.join(delegation.allowed_agents) or 'nobody'}"
    if delegation.denied_agents:
        yield f"may not send: {', '.join(delegation.denied_agents)}"
    yield f"catalogue: {catalog.category}, {catalog.cost}"
    yield from (f"use when: {one}" for one in catalog.use_when)
    yield from (f"avoid when: {one}" for one in catalog.avoid_when)


def _sent_how(delegation: AgentDelegation) -> Iterator[str]:
    if delegation.background:
        yield ", in the background"
    if delegation.worktree:
        yield ", in a worktree of its own"
    if delegation.invocation is not None:
        yield f", sending it: {delegation.invocation}"
    if delegation.max_depth is not None:
        yield f", {delegation.max_depth} deep at most"


# Choosing


def _use(parsed: Args, env: Env) -> int:
    """Remembers whom to talk with in this project."""
    found, _chosen = agents_here(parsed, env)
    agent = chosen_agent(found.registry, parsed.name, found.waiting)
    _choose(agent.name, env)
    if parsed.json:
        return say_json(ChosenAgent(agent=agent.name, said_by=CHOSEN_HERE))
    return say(
        f"{agent.name} is whom you talk with in this project from now on. bridle agents forget undoes it.\n"
    )


def _forget(parsed: Args, env: Env) -> int:
    before = _choose(None, env)
    if parsed.json:
        return say_json({"forgotten": before})
    words = (
        "No agent was chosen for this project."
        if before is None
        else f"{before} is not chosen here any more."
    )
    return say(f"{visible_line(words)}\n")


def _choose(agent: str | None, env: Env) -> str | None:
    where = folders(env)
    try:
        return choose_agent(where.state, os.getcwd(), agent)
    except OSError as problem:
        raise BridleError(
            "FileUnwritable", path=where.state, problem=problem.strerror or str(problem)
        ) from None


# Checking


class CheckedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about one file: nothing, or what to change."""

    path: str
    name: str = ""
    problems: tuple[AgentProblem, ...] = ()
    warnings: tuple[AgentProblem, ...] = ()


def _check(parsed: Args, env: Env) -> int:
    found = [_checked(path, env) for path in parsed.path or _paths_here(parsed, env)]
    lines = [line for one in found for line in _checked_lines(one)]
    return report_checked(parsed, found, lines, has_problems=any(one.problems for one in found))


def report_checked(parsed: Args, found: Sequence[object], lines: Sequence[str], *, has_problems: bool) -> int:
    """Print what was found out about files of agents or skills, and return the exit code."""
    verb, code = parsed.verb, EXIT_PROBLEMS if has_problems else 0
    if parsed.json:
        return say_json(found) or code
    nothing = f"No {verb} of yours or of this project here. Begin one: bridle {verb} new NAME"
    return say_lines(lines or [nothing]) or code


def _paths_here(parsed: Args, env: Env) -> list[str]:
    listed, cwd = _tiers(parsed, env).get("agents.folders") or (), os.path.realpath(os.getcwd())
    places = agent_places(listed, where=folders(env), cwd=cwd, env=env)
    return [path for place in places for path in agent_paths(place.folder)]


def _checked(path: str, env: Env) -> CheckedAgent:
    shown = shown_path(path, env)
    read = read_agent_file(path, AgentOrigin(scope="user", place=shown)).read
    problems = read.problems
    if read.agent is not None and (taken := AgentRegistry(BUILTIN_AGENTS).register(read.agent)) is not None:
        clause = f"Bridle brings an agent {taken.has_it.name}: choose another name"
        problems = (AgentProblem(line=1, clause=clause),)
    name = read.agent.name if read.agent is not None else ""
    return CheckedAgent(path=shown, name=name, problems=problems, warnings=read.warnings)


def _checked_lines(one: CheckedAgent) -> Iterator[str]:
    place = visible_line(one.path)
    for problem in (*one.problems, *one.warnings):
        line = f":{problem.line}" if problem.line else ""
        yield f"{place}{line}: {visible_line(problem.clause)}"
    if not one.problems:
        yield f"{place}: good"


def shown_path(path: str, env: Env) -> str:
    """A path as people write it: from where they are, or from their home."""
    here = os.path.relpath(path)
    return folder_words(os.path.abspath(path), env.get("HOME", "")) if here.startswith("../") else here


# Beginning one


def _new(parsed: Args, env: Env) -> int:
    if problem := name_problem(parsed.name):
        raise UsageError(problem)
    if AgentRegistry(BUILTIN_AGENTS).get(parsed.name) is not None:
        raise UsageError(f"Bridle brings an agent {parsed.name}: choose another name")
    file = os.path.join(folder_of_new(parsed, env), AGENTS, f"{parsed.name}{ENDING}")
    description = msgspec.json.encode(parsed.description or "What it is for, in a sentence.").decode()
    text = _BEGINNING.format(name=parsed.name, description=description)
    read = read_agent(text, stem=parsed.name, origin=AgentOrigin(scope="user", place=file))
    if read.agent is None:
        raise UsageError(f"--description: {read.problems[0].clause}")
    return write_beginning(file, text, parsed, env)


def folder_of_new(parsed: Args, env: Env) -> str:
    """The user's config folder, or that of the project."""
    cwd = os.getcwd()
    return folders(env).config if parsed.own else project_folder(cwd) or os.path.join(cwd, PROJECT_FOLDER)


def write_beginning(file: str, text: str, parsed: Args, env: Env) -> int:
    """Write a file of an agent or a skill to begin with, and say how to go on."""
    shown = shown_path(file, env)
    try:
        os.makedirs(os.path.dirname(file), mode=0o700 if parsed.own else 0o777, exist_ok=True)
        write_new(file, text)
    except FileExistsError:
        raise UsageError(f"{shown} is there already. Nothing was changed") from None
    except OSError as failure:
        raise BridleError("FileUnwritable", path=file, problem=failure.strerror or str(failure)) from None
    if parsed.json:
        return say_json({"name": parsed.name, "file": file})
    agree = "" if parsed.own else "\nThen agree to it, as to every file of a project: bridle trust ack"
    check = f"bridle {parsed.verb} check"
    return say(f"Wrote {shown}. Say in it what to do, and check it: {check}{agree}\n")
