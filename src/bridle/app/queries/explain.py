"""Explain the decision about a call without running it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from bridle.app.session_parts import gate_layers, session_registry
from bridle.app.sources.gates import Gates, gates, understanding
from bridle.app.sources.plugins import session_plugins
from bridle.app.user.settings import SessionSettings, session_settings
from bridle.base.clock import Clock, SystemClock
from bridle.base.command_class import CommandClass
from bridle.base.fs.paths import session_folders
from bridle.base.process.installation import is_map_installed
from bridle.base.process.processes import Processes
from bridle.config.folders import Folders, folders, home_of
from bridle.context.skills.session_skills import Offered, SessionSkills, skill_tool
from bridle.engine.conversation import Conversation
from bridle.engine.dispatch import ToolLayers
from bridle.engine.features import Feature, PlacedToolLayer, join
from bridle.engine.tools import BUILTIN, RunTool, ToolCall, ToolLayer, ToolOutput
from bridle.plugin.loading import LoadedPlugin
from bridle.protocol.commands import SessionOptions
from bridle.protocol.errors import sentence
from bridle.protocol.events import CommandPart, Evidence, Mode, Risk, Verdict
from bridle.safety.call_risk import CallFacts
from bridle.safety.git_arrivals import foreseen
from bridle.safety.grants import SavedGrants
from bridle.safety.guards import fail_closed
from bridle.safety.permission_policy import STEPS, Decision, Permissions
from bridle.safety.permitted import SOURCE, question
from bridle.safety.question_reasons import remembers
from bridle.sandbox.read_only_git import repository_of
from bridle.sandbox.session_border import machine_spawn
from bridle.shell.command_facts import Understand
from bridle.tools.builtin import builtin_tools
from bridle.tools.jobs import Jobs
from bridle.tools.person_tools import exit_plan_tool
from bridle.tools.repo_map import repo_map_tool


class PossibleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer a person could give, and what it would remember."""

    answer: Literal["once", "pattern", "tool", "always"]
    remembers: str


class Explained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What would become of a call: the verdict, the step of the order that decided, and what it rests on.

    `message` is what the model would read; `evidence` what a guard found; `answers` what a person could say; `limits`
    what this does not hold back or foresee, where somebody might think so. `for_person`: only their own answer
    counts, of so many people as `keys` says. `flags` are those that lift that, or have lifted it.
    """

    tool: str
    verdict: Verdict
    mode: Mode
    step: int
    step_name: str
    decided_by: str
    rule: str | None = None
    origin: str | None = None
    reason: str | None = None
    message: str | None = None
    why: str = ""
    because: str = ""
    risk: Risk | None = None
    quiet: bool = False
    command_class: CommandClass | None = None
    parts: tuple[CommandPart, ...] = ()
    paths: tuple[str, ...] = ()
    evidence: Evidence | None = None
    answers: tuple[PossibleAnswer, ...] = ()
    for_person: bool = False
    keys: int = 1
    flags: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


class Unexplainable(Exception):
    """There is no such call: no tool of that name, or not with that input. `message` is the engine's own sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class FolderRules(NamedTuple):
    """What holds in a folder right now: settings, saved grants, gates. `layers` stand before the decision."""

    settings: SessionSettings
    mode: Mode
    saved: SavedGrants
    gates: Gates
    layers: tuple[ToolLayer, ...]
    layered: tuple[str, ...] = ()
    """The plugins that have a layer around calls, which are not run here: it may change the input, or answer itself."""

    @property
    def permissions(self) -> Permissions:
        return self.gates.permissions


def standing(
    env: Mapping[str, str],
    *,
    cwd: str,
    options: SessionOptions | None = None,
    profile: str | None = None,
    mode: Mode | None = None,
    clock: Clock | None = None,
    understand: Understand | None = None,
) -> FolderRules:
    """The gates a session in `cwd` would have now. Nothing is created by looking."""
    where = folders(env)
    cwd = os.path.realpath(cwd)
    settings = session_settings(options, where=where, cwd=cwd, env=env, profile=profile)
    plugins: tuple[LoadedPlugin, ...] = ()
    if settings.plugin_tiers is not None:
        settings, plugins = session_plugins(settings)
    chosen = mode or settings.mode
    saved = SavedGrants(where.state, (clock or SystemClock()).now_ms)
    tools = (
        *builtin_tools(Jobs(lambda _event: None)),
        exit_plan_tool(lambda: chosen, lambda: chosen),
        skill_tool(SessionSkills(lambda: Offered(skills={})), Conversation),
        *((repo_map_tool(""),) if settings.context.repo_map != "off" and is_map_installed() else ()),
    )
    registry = session_registry(settings, mode=lambda: chosen)
    registry.replace(BUILTIN.scope, tools, BUILTIN)
    for plugin in plugins:
        registry.replace(plugin.name, plugin.feature.tools, plugin.feature.origin)
    made = gates(
        settings,
        registry,
        where=where,
        here=session_folders(cwd, settings.options.add_dirs),
        understand=understand or understanding(env, cwd),
        mode=lambda: chosen,
        saved=saved if settings.permissions.persist else None,
        env=env,
    )
    foreseen = _foreseen(made.understand, where, env)
    placed = (*gate_layers(lambda: made), PlacedToolLayer("foreseen", lambda: foreseen))
    layers = join([Feature(name="explain", tool_layers=placed)]).tool_layers().one_at_a_time
    layered = tuple(plugin.name for plugin in plugins if plugin.feature.tool_layers)
    return FolderRules(settings, chosen, saved, made, layers, layered)


def _foreseen(understand: Understand, where: Folders, env: Mapping[str, str]) -> ToolLayer:
    """As in a session: the calls of git that look may only read, as far as this machine can hold them to it."""

    async def layer(call: ToolCall, proceed: RunTool) -> ToolOutput:
        if not any("git" in part.text for part in call.parts):
            return await proceed(call)
        processes = Processes()
        try:
            spawn = machine_spawn(processes, where=where, home=home_of(env), env=env)
            look = foreseen(understand, lambda folder: repository_of(spawn, cwd=folder, env=env))
            return await look(call, proceed)
        finally:
            await processes.close()

    return layer


async def explain(here: FolderRules, tool: str, given: dict[str, Any]) -> Explained:
    """What would become of this call. Raises `Unexplainable` where there is no such call."""
    found: list[Explained] = []

    async def decided(call: ToolCall, _proceed: RunTool) -> ToolOutput:
        query = here.permissions.query(call)
        found.append(_explained(here, call, query, here.permissions.decide(query)))
        return ToolOutput()

    layers = ToolLayers(one_at_a_time=(*here.layers, fail_closed(SOURCE, decided)), together=())
    output = await layers.around(_not_run)(_call(tool, given))
    if found:
        return found[0]
    if output.outcome == "error":
        raise Unexplainable(output.reason or "", output.content)
    return Explained(
        tool=tool,
        verdict="deny",
        mode=here.mode,
        step=1,
        step_name=STEPS[1],
        decided_by=output.evidence.source if output.evidence is not None else "guard",
        rule=output.evidence.rule if output.evidence is not None else None,
        reason=output.reason,
        message=output.content,
        evidence=output.evidence,
        limits=tuple(_unseen(here)),
    )


def _explained(here: FolderRules, call: ToolCall, query: CallFacts, decision: Decision) -> Explained:
    asked = question(call, query, decision, here.permissions)
    answers = [PossibleAnswer(answer=offer.answer, remembers=remembers(offer)) for offer in asked.offers]
    ask = decision.verdict == "ask"
    return Explained(
        tool=call.name,
        verdict=decision.verdict,
        mode=here.mode,
        step=decision.step,
        step_name=STEPS[decision.step],
        decided_by=decision.decided_by,
        rule=decision.rule,
        origin=decision.origin,
        reason=decision.reason,
        message=decision.note,
        why=asked.why,
        because=asked.because if ask else "",
        risk=query.risk,
        quiet=query.quiet,
        command_class=query.script.command_class if query.script is not None else None,
        parts=asked.parts,
        paths=tuple(path.shown for path in query.paths),
        answers=(PossibleAnswer(answer="once", remembers="nothing"), *answers) if ask else (),
        for_person=decision.for_person,
        keys=decision.keys,
        flags=query.lifting if decision.for_person else query.lifted,
        limits=tuple(_limits(here, query, decision)),
    )


def _limits(here: FolderRules, query: CallFacts, decision: Decision) -> Iterator[str]:
    """What rules cannot do about this call."""
    runs = query.script is not None and query.script.command_class not in ("read_only", "writes")
    if decision.verdict != "deny" and runs and here.permissions.names_programs:
        yield "a rule that denies commands does not hold what the programs of this one start"
    if here.settings.options.allow and here.mode == "yolo":
        yield sentence("AllowIsNoLimit", {})
    yield from _unseen(here)


def _unseen(here: FolderRules) -> Iterator[str]:
    """What is not known of a call because code of others would have to run for it."""
    if here.layered:
        these = f"plugin {here.layered[0]} has" if len(here.layered) == 1 else "plugins have"
        named = "" if len(here.layered) == 1 else f" ({', '.join(here.layered)})"
        yield f"the {these} a layer around calls{named}, which is not run here: it may change the input before this"


async def _not_run(_call: ToolCall) -> ToolOutput:
    """Behind the decision there is nothing."""
    return ToolOutput()


def _call(tool: str, given: dict[str, Any]) -> ToolCall:
    def nowhere(_text: str) -> None:
        """Nothing runs, so nothing is printed."""

    async def at_once() -> None:
        """There is no other call to wait for."""

    return ToolCall(
        id="call_explained",
        name=tool,
        input=given,
        step=1,
        originator="",
        write=nowhere,
        passed_gates=at_once,
        partial=[],
    )
