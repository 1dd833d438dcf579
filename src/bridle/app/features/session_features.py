"""The features of a session, in reading order.

A feature whose settings leave it nothing to do adds no layer. What only a call needs is imported with the first one.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.app.features.model_features import budget, compaction, models
from bridle.app.features.skills_feature import ask_about, skills
from bridle.app.session_parts import GOAL, REDO, UNDO, ProcessServices, SessionParts, gate_layers
from bridle.app.user.instruction_trust import trust_port
from bridle.base.clock import iso_ms
from bridle.base.fs.files import repository_root
from bridle.base.process.installation import is_map_installed
from bridle.commands.described_commands import GIT_COMMANDS
from bridle.config.folders import project_folder, prompt_folders
from bridle.context.consent import AT_A_DESK, IN_CI, Consent
from bridle.context.instructions import instructions as instructions_layer
from bridle.context.instructions import parameters_of, system_text, with_sandbox
from bridle.context.session_instructions import (
    InstructionPlace,
    InstructionPorts,
    OfferedSources,
    SessionInstructions,
)
from bridle.context.skills.skill_list import skills_text
from bridle.engine.conversation import MAIN
from bridle.engine.features import (
    EventListener,
    Feature,
    FeatureQuery,
    PlacedRequestLayer,
    PlacedToolLayer,
)
from bridle.engine.slash_command import SlashCommand, SlashEvent
from bridle.engine.steps import AskModel, Reply, Step
from bridle.engine.tools import BUILTIN, Registry, Tool, ToolOrigin
from bridle.protocol import queries as q
from bridle.protocol.errors import sentence
from bridle.protocol.events import DurableEvent, Envelope, ModelChanged, Notice, PrefixSet
from bridle.protocol.messages import Parameters
from bridle.sandbox.plain_spawn import OFF, UNCONFINED
from bridle.sandbox.session_border import clear_away, outlived
from bridle.sessions.archive.beside_store import dumps_of
from bridle.sessions.archive.kept_fold import KeptFold
from bridle.tools.builtin import builtin_tools
from bridle.tools.jobs import Jobs
from bridle.tools.output import read_part
from bridle.tools.person_tools import exit_plan_tool
from bridle.tools.repo_map import NAME, repo_map_tool

if TYPE_CHECKING:
    from bridle.base.net.web import RefuseBody, WebAnswer
    from bridle.engine.ports import AskPerson
    from bridle.protocol.events import Envelope
    from bridle.protocol.questions import AnyAnswer, AnyQuestion
    from bridle.safety.grants import Grant
    from bridle.safety.trust.approvals import ApprovedEdits

BROUGHT = ToolOrigin(scope="programmatic")
"""Where the tools of an embedder come from."""

GOAL_HEARS = frozenset({
    "ToolCallStarted", "ToolResult", "PermissionRequested", "PermissionDecided", "QuestionAsked", "QuestionAnswered",
    "TurnEnded", "StepStarted",
})  # fmt: skip
"""What a goal under way hears of: steps, what ran, what changed, and whether somebody is being asked."""


def session_features(parts: SessionParts, fold: KeptFold) -> tuple[Feature, ...]:
    """Everything of ours. Their order is that of what they say when a session begins and do when it ends."""
    edits = functools.cache(lambda: _call_layers().approved_edits(parts))
    return (
        settings(parts),
        operations(parts),
        *traces(parts),
        *raw_dumps(parts),
        *hooks(parts),
        permissions(parts, edits),
        trust(edits),
        tools(parts),
        *repo_map(parts),
        brought(parts.services),
        *servers(parts),
        *tool_modules(parts),
        *skills(parts),
        calls(parts),
        undo(parts),
        git(parts),
        goals(parts),
        Feature(name="transcript", notices=fold.notices),
        sandbox(parts),
        instructions(parts),
        *memory(parts),
        *prompt_files(parts),
        *aliases(parts),
        budget(parts),
        models(parts),
        compaction(parts),
    )


def settings(parts: SessionParts) -> Feature:
    """What a person should know of the settings in force; the profile."""

    def answers():
        from bridle.app.queries import profile_answers  # the door of queries

        return profile_answers

    async def list_profiles(_query: q.ListProfiles) -> q.ProfileList:
        where = parts.services.where
        return answers().profile_list(where, cwd=parts.opened.cwd, in_force=parts.settings.profile)

    async def describe(query: q.DescribeProfile) -> q.ProfileDescription:
        if query.name:
            return answers().profile_description(query.name, parts.services.where)
        return answers().session_profile(parts)

    return Feature(
        name="settings",
        answers={q.ListProfiles: list_profiles, q.DescribeProfile: describe},
        notices=lambda: _told_of_settings(parts),
    )


def operations(parts: SessionParts) -> Feature:
    """The operational log hears of what goes wrong."""
    notes, conversation = parts.services.notes, parts.journal.conversation

    def provider() -> str:
        return conversation.prefix.provider if conversation.prefix is not None else ""

    listener = EventListener(kinds=notes.kinds, hear=lambda envelope: notes.event(envelope, provider()))
    return Feature(name="operations", listeners=(listener,))


def traces(parts: SessionParts) -> Iterator[Feature]:
    """Turns as OpenTelemetry spans, where somebody has named a collector for them."""
    endpoint, services = parts.settings.otel.endpoint, parts.services
    if endpoint is None and not any(name.startswith("OTEL_") for name in services.env):
        return
    if (feature := services.traces.feature(endpoint)) is not None:
        yield feature


def raw_dumps(parts: SessionParts) -> Iterator[Feature]:
    """What goes to providers and comes back, kept as it was, where the person's settings say so."""
    if not parts.settings.debug.raw:
        return
    from bridle.providers.raw_dump import RawDump

    services, log = parts.services, parts.opened.log
    dump = RawDump(
        dumps_of(services.where.state, log.session),
        log.session,
        key=log.outputs_key,
        secrets=services.models.keys_in_use,
        clock=services.clock,
        hear=lambda problem: services.notes.write("warning", "provider", "dump not kept", reason=problem),
    )
    services.models.keep_exchanges(dump.keep)
    data = {"session": log.session}
    notice = Notice(reason="RawDump", message=sentence("RawDump", data), data=dict(data))
    yield Feature(name="raw_dumps", notices=lambda: (notice,))


def hooks(parts: SessionParts) -> Iterator[Feature]:
    """Programs of the person that hear and say no. Where there are none there is no feature."""
    if parts.hooks is not None:
        from bridle.app.sources.hook_feature import hooks

        yield hooks(parts.hooks, lambda: (parts.gates().validated, parts.gates().guarded))


def permissions(parts: SessionParts, edits: Callable[[], ApprovedEdits]) -> Feature:
    """Everything that looks at a call before it may run, and the question."""

    async def list_grants(_query: q.ListGrants) -> q.GrantList:
        return q.GrantList(grants=tuple(map(_grant_entry, parts.gates().permissions.grants)))

    return Feature(
        name="permissions",
        answers={q.ListGrants: list_grants},
        tool_layers=(
            *gate_layers(parts.gates),
            PlacedToolLayer("foreseen", lambda: _call_layers().look_at_git(parts)),
            PlacedToolLayer("permitted", lambda: _call_layers().ask_permission(parts, edits())),
        ),
        notices=lambda: _told_of_grants(parts),
    )


def trust(edits: Callable[[], ApprovedEdits]) -> Feature:
    """What a person agreed to in an edit question is trusted once it is written."""
    return Feature(
        name="trust", tool_layers=(PlacedToolLayer("trust_approved_edits", lambda: edits().layer),)
    )


def tools(parts: SessionParts) -> Feature:
    """The built-in tools, and the commands they left running."""
    conversation, jobs = parts.journal.conversation, Jobs(parts.journal.emit)

    async def fetch(url: str, wanted: RefuseBody) -> WebAnswer:
        return await parts.services.fetch()(url, wanted, parts.gates().paths.judge_url)

    plan = exit_plan_tool(lambda: conversation.mode, lambda: conversation.mode_before_plan)
    built_in, packs = builtin_tools(jobs, fetch), parts.settings.tools.packs
    if packs is not None:
        from bridle.tools.builtin import in_packs

        built_in = in_packs(built_in, packs)

    async def list_tools(_query: q.ListTools) -> q.ToolList:
        return q.ToolList(tools=tool_entries(parts.registry))

    return Feature(
        name=BUILTIN.scope,
        origin=BUILTIN,
        tools=(*built_in, plan),
        answers={q.ListTools: list_tools},
        at_end=jobs.close,
    )


def tool_entries(registry: Registry) -> tuple[q.ToolEntry, ...]:
    """Return the tools the model is told of now."""
    return tuple(
        q.ToolEntry(
            name=tool.name,
            description=tool.description,
            risk=tool.risk,
            source=origin.scope if (origin := registry.origin(tool.name)) else "",
        )
        for tool in registry.list()
    )


def repo_map(parts: SessionParts) -> Iterator[Feature]:
    """A map of the project's sources: a tool, and at the tail where a setting says so.

    Where its extra is not installed, or a setting says so, there is no feature.
    """
    if parts.settings.context.repo_map == "off" or not is_map_installed():
        return
    cache_folder = os.path.join(parts.services.where.state, "repo-map")
    feature = Feature(name=NAME, origin=BUILTIN, tools=(repo_map_tool(cache_folder),))
    if parts.settings.context.repo_map == "tail":
        from bridle.app.features.map_feature import map_at_tail

        tail = map_at_tail(parts, cache_folder)
        layers = (PlacedRequestLayer("repo_map", tail.layer),)
        feature = msgspec.structs.replace(feature, request_layers=layers, at_end=tail.end)
    yield feature


def brought(services: ProcessServices) -> Feature:
    """The sources of tools that an embedder brings. Single tools of theirs may collide, and are told of."""
    sources = tuple(one for one in services.tools if not isinstance(one, Tool))
    return Feature(name=BROUGHT.scope, origin=BROUGHT, sources=sources)


def servers(parts: SessionParts) -> Iterator[Feature]:
    """The MCP servers of the settings. Where there are none there is no feature."""
    if parts.settings.servers.definitions:
        from bridle.app.features.mcp_feature import mcp

        yield mcp(parts)


def tool_modules(parts: SessionParts) -> Iterator[Feature]:
    """The tools of modules. Without a folder of them there is no feature."""
    places = (parts.services.where.config, project_folder(parts.opened.cwd))
    if any(os.path.isdir(os.path.join(place, "tools")) for place in places if place):
        from bridle.app.features.tool_module_source import tool_modules

        yield from tool_modules(parts)


def calls(parts: SessionParts) -> Feature:
    """The mechanics of a call: still there, room for it, on record, in time, short enough, without secrets."""
    layers = [
        PlacedToolLayer("still_offered", lambda: _call_layers().check_still_offered(parts)),
        PlacedToolLayer("recorded", lambda: _call_layers().record(parts)),
        PlacedToolLayer("deadline", lambda: _call_layers().hold_deadline(parts)),
        PlacedToolLayer("capped", lambda: _call_layers().cap_output(parts)),
        PlacedToolLayer("redacted", lambda: _call_layers().redact_output(parts)),
    ]
    if parts.settings.options.dry_run:
        layers.append(PlacedToolLayer("dry_run", lambda: _call_layers().stop_dry_run()))
    if (room := parts.services.room) is not None:
        layers.append(PlacedToolLayer("wait_for_disk", lambda: _call_layers().wait_for_disk(parts, room)))

    async def read_output(query: q.ReadOutput) -> q.OutputPart:
        return await asyncio.to_thread(read_part, parts.spill(), query.call_id, query.offset)

    return Feature(name="calls", tool_layers=tuple(layers), answers={q.ReadOutput: read_output})


def undo(parts: SessionParts) -> Feature:
    """What files were, before a call; `/undo` and `/redo`."""

    return Feature(
        name="undo",
        tool_layers=(PlacedToolLayer("undoable", lambda: _call_layers().keep_files(parts)),),
        slash=(
            SlashCommand.of(UNDO, lambda words: parts.undo().undo(words)),
            SlashCommand.of(REDO, lambda words: parts.undo().redo(words)),
        ),
        answers={q.ListChanges: lambda query: parts.undo().changes(query.what)},
    )


def git(parts: SessionParts) -> Feature:
    """`/diff`, and what changes the repository: `/branch`, `/commit`, `/commit-push-pr`, `/worktree`, `/worktrees`,
    `/stash`."""

    async def run(name: str, words: str) -> SlashEvent:
        from bridle.app.features.git_feature import run_git_slash  # the door of git commands

        return await run_git_slash(parts, name, words)

    commands = (
        SlashCommand.of(one, functools.partial(run, one.name), checks_words=True) for one in GIT_COMMANDS
    )
    return Feature(name="git", slash=tuple(commands), notices=lambda: _cut_off_worktrees(parts))


def _cut_off_worktrees(parts: SessionParts) -> Iterator[Notice]:
    """Agents that were cut off in a worktree of this repository left something there."""
    folder = parts.services.where.worktrees
    if not os.path.isdir(folder):
        return
    from bridle.base.git.own_worktrees import cut_off  # only where agents have had some
    from bridle.sandbox.git_places import find_repository

    git = find_repository(os.path.realpath(parts.opened.cwd))
    if git is not None and (names := cut_off(folder, git.common)):
        data = {"names": ", ".join(names)}
        yield Notice(reason="WorktreeCutOff", message=sentence("WorktreeCutOff", data), data=dict(data))


def goals(parts: SessionParts) -> Feature:
    """`/goal`: work from turn to turn until a check of the person's passes."""

    def feature():
        from bridle.app.features import goal_feature  # the door of goals

        return goal_feature

    def hear(envelope: Envelope) -> None:
        if parts.goals.driver is not None:
            parts.goals.driver.hear(envelope)

    return Feature(
        name="goal",
        slash=(
            SlashCommand.of(
                GOAL,
                lambda words: feature().begin_from_words(parts, words),
                checks_words=True,
                at_once=lambda words: feature().goal_at_once(parts, words),
            ),
        ),
        listeners=(EventListener(kinds=GOAL_HEARS, hear=hear),),
    )


def sandbox(parts: SessionParts) -> Feature:
    """How commands may run, what earlier ones left behind, and the temporary folder."""
    where = parts.services.where

    async def end() -> None:
        clear_away(parts.scratch)

    return Feature(
        name="sandbox",
        tool_layers=(PlacedToolLayer("sandboxed", lambda: _call_layers().choose_policy(parts)),),
        notices=lambda: outlived(where),
        at_end=end,
    )


def instructions(parts: SessionParts) -> Feature:
    """System text, tools and model in force, and what of the project's instructions joins them later."""
    is_main = parts.journal.invocation is MAIN
    files = functools.cache(lambda: session_instructions(parts, None if is_main else _not_now))

    async def system() -> str:
        return await _system_text(parts, files, asks=is_main)

    async def add_touched(step: Step, proceed: AskModel) -> Reply:
        if not step.journal.conversation.known_files:
            return await proceed(step)
        return await files().layer(step, proceed)

    async def described(_query: q.CustomQuery) -> dict[str, Any]:
        return files().described()

    async def project(_query: q.CustomQuery) -> dict[str, Any]:
        from bridle.context.working_context import working_context

        count = sum(one["state"] != "left out" for one in files().described()["files"])
        found = working_context(repository_root(parts.opened.cwd), count)
        return msgspec.structs.asdict(found) | {"top_level_files": list(found.top_level_files)}

    def corrected(text: str) -> str:
        held = _held_in(parts)
        return text if held == NOT_KNOWN else with_sandbox(text, held)

    layer = instructions_layer(
        system=system,
        tools=parts.registry.schemas,
        parameters=_parameters(parts),
        corrected=corrected,
        renew=parts.opened.has_new_profile,
    )
    return Feature(
        name="instructions",
        request_layers=(
            PlacedRequestLayer("instructions", layer),
            PlacedRequestLayer("nested_instructions", add_touched),
        ),
        queries=(
            FeatureQuery(verb="files", answer=described),
            FeatureQuery(verb="project", answer=project),
        ),
    )


def memory(parts: SessionParts) -> Iterator[Feature]:
    """Notes that last, where a session has them."""
    if parts.settings.memory:
        from bridle.app.features.memory_feature import memory

        yield memory(parts)


def prompt_files(parts: SessionParts) -> Iterator[Feature]:
    """Prompts as files: the person's, the project's, and those of bundles. Without a folder there is no feature."""
    user, project = prompt_folders(parts.services.where, parts.opened.cwd, parts.settings.commands.folders)
    if not (user or project or parts.settings.bundles):
        return
    from bridle.app.features.prompt_file_feature import bundle_prompts, project_prompts, user_prompts

    if user:
        yield user_prompts(parts, user)
    if project:
        yield project_prompts(parts, project)
    for folder in parts.settings.bundles:
        yield bundle_prompts(parts, folder)


def aliases(parts: SessionParts) -> Iterator[Feature]:
    """Short names of the person's own, where they have a file of them."""
    if os.path.isfile(os.path.join(parts.services.where.config, "aliases.toml")):
        from bridle.app.features.alias_source import aliases

        yield aliases(parts)


NOT_KNOWN = "not known yet"


async def next_prefix(parts: SessionParts, chosen: ModelChanged) -> PrefixSet:
    """What a request would begin with, as things stand. Nobody is asked: what is not agreed to yet is left out."""
    conversation = parts.journal.conversation
    current = conversation.prefix
    if current is not None:
        system = current.system
    else:
        system = await _system_text(parts, lambda: session_instructions(parts, _not_now), asks=False)
    return PrefixSet(
        provider=chosen.provider,
        model=chosen.model,
        system=system,
        tools=parts.registry.schemas(),
        parameters=parameters_of(conversation, _parameters(parts)),
    )


def _parameters(parts: SessionParts) -> Parameters:
    return Parameters(effort=parts.settings.chosen.effort, answer_schema=parts.settings.options.output_schema)


def _unsaid(_event: DurableEvent) -> None:
    """What a person was told once already."""


async def _not_now(question_id: str, question: AnyQuestion) -> AnyAnswer | None:
    """Where nobody is asked."""


def session_instructions(parts: SessionParts, ask: AskPerson | None = None) -> SessionInstructions:
    """The instruction files of a session. `ask` puts questions in place of the session's own way."""
    opened, services, settings = parts.opened, parts.services, parts.settings
    trust, root, notice = (
        trust_port(opened.approvals, services.clock),
        repository_root(opened.cwd),
        parts.journal.emit if parts.journal.invocation is MAIN else _unsaid,
    )
    how = IN_CI if services.env.get("CI") else AT_A_DESK
    return SessionInstructions(
        InstructionPlace(
            cwd=opened.cwd, root=root, config_folder=services.where.config, sources=settings.context.sources
        ),
        InstructionPorts(
            consent=Consent(trust, ask=ask or parts.questions.ask, notice=notice, how=how),
            trust=trust,
            offers=OfferedSources(services.where.state, root),
            notice=notice,
            remembers=ask is None and not settings.options.headless,
        ),
        parts.journal.conversation,
    )


async def _system_text(parts: SessionParts, files: Callable[[], SessionInstructions], *, asks: bool) -> str:
    opened, settings, clock = parts.opened, parts.settings, parts.services.clock
    text = await files().text()
    agent = parts.agent
    told = (
        settings.instructions,
        text,
        await _skills_text(parts, asks=asks),
        agent.words() if agent is not None else "",
    )
    system = os.uname()
    return system_text(
        cwd=opened.cwd,
        system=f"{system.sysname} {system.machine}",
        date=iso_ms(clock.now_ms())[:10],
        sandbox=_held_in(parts),
        role=agent.definition.system if agent is not None else "",
        more="\n\n".join(filter(None, told)),
    )


async def _skills_text(parts: SessionParts, *, asks: bool) -> str:
    """What the model is told of skills; where `asks`, a person is asked first about those that are new here."""
    known = parts.skills
    if known is None:
        return ""
    if asks:
        await ask_about(parts, known, parts.questions.ask)
        known.is_told = True
    return skills_text(tuple(known.offered.skills.values()))


def _held_in(parts: SessionParts) -> str:
    """What commands run in, as the model is told it."""
    adapter = OFF if parts.policy.mode == "off" else parts.spawn.adapter
    return "no sandbox" if adapter in (OFF, UNCONFINED) else adapter or NOT_KNOWN


def _told_of_settings(parts: SessionParts) -> Iterator[Notice]:
    """What was let in by a flag, what was left out, and what could not be read."""
    settings = parts.settings
    for flag, given in (
        ("--allow-policy-changes", settings.options.allow_policy_changes),
        ("--allow-unsandboxed", settings.options.allow_unsandboxed),
    ):
        if given:
            data = {"flag": flag}
            yield Notice(reason="AllowedByFlag", message=sentence("AllowedByFlag", data), data=data)
    if (unsafe := parts.opened.approvals.problem()) is not None:
        yield Notice(reason=unsafe.reason, message=unsafe.message, data=unsafe.data)
    for warning in settings.warnings:
        yield Notice(reason="ConfigWarning", message=warning)
    if settings.unused:
        data = {"settings": ", ".join(settings.unused)}
        yield Notice(reason="NotUsedYet", message=sentence("NotUsedYet", data), data=data)


def _told_of_grants(parts: SessionParts) -> Iterator[Notice]:
    saved = parts.saved
    if saved is not None and (problem := saved.problem()) is not None:
        message = sentence("GrantsUnreadable", {"path": saved.path, "problem": problem})
        yield Notice(reason="GrantsUnreadable", message=message)


def _grant_entry(grant: Grant) -> q.GrantEntry:
    return q.GrantEntry(
        grant_id=grant.grant_id,
        tool=grant.tool,
        pattern=grant.subject or "",
        match=grant.match,
        expires_ms=grant.expires_ms,
    )


def _call_layers():
    """Return the module of the tool layers: the door of tool calls."""
    from bridle.app.features import tool_layers

    return tool_layers
