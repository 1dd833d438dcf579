"""What an outer agent can call: names, what they take, and what its model reads about them. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from bridle.protocol.commands import PermissionChoice
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import InputMode, Mode

ToolNames: TypeAlias = Literal["underscore", "dotted"]
_PREFIXES = ("bridle.", "harness.", "bridle_")
"""What may stand before a name that is called; models refuse names with dots, so none is written by itself."""

BANNER = (
    "run_agent_with_shell_access starts a coding agent that reads and writes files and runs shell commands on the "
    "person's machine, with the person's own permissions and sandbox. Whoever lets that tool run without asking lets "
    "run whatever that agent may do. You are an agent here: you can refuse its questions, never approve them. A person "
    "can watch, answer and stop every session: bridle attach ID."
)
"""What whoever attaches is told, and reads beside the tools."""

Session = Annotated[
    str, Meta(description="The session, by id or any name of it. Without one: the one used last here.")
]
Wait: TypeAlias = Literal["turn", "none"]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]


class NoArguments(msgspec.Struct, frozen=True, kw_only=True):
    pass


class ListArguments(msgspec.Struct, frozen=True, kw_only=True):
    cwd: Annotated[str, Meta(description="Only sessions of this folder.")] = ""
    cursor: Annotated[str, Meta(description="next_cursor of the page before.")] = ""


class SessionArguments(msgspec.Struct, frozen=True, kw_only=True):
    session: Session = ""


class CreateArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What a session may be asked to be. Everything but the folder, the model and the title only tightens."""

    cwd: Annotated[str, Meta(description="The folder to work in, absolute.")] = ""
    model: Annotated[
        str, Meta(description="provider:model, of those the person has set up. Without one: theirs.")
    ] = ""
    mode: Annotated[
        Mode | None, Meta(description="A stricter stance than the person's own: plan, safe, strict.")
    ] = None
    title: Annotated[str, Meta(description="What people read in their list of sessions.")] = ""
    max_cost: Annotated[float | None, Meta(description="Dollars the session may cost at most.")] = None
    max_steps: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Model calls in one turn at most.")
    ] = None
    sandbox: Annotated[str, Meta(description="read-only or workspace-write; never looser.")] = ""
    network: Annotated[str, Meta(description="deny or filtered; never looser.")] = ""
    dry_run: Annotated[bool, Meta(description="Nothing is changed; the agent says what it would do.")] = False
    deny: Annotated[
        tuple[str, ...], Meta(description='Rules for what never runs, such as "bash(git push*)".')
    ] = ()


class RunArguments(CreateArguments, frozen=True, kw_only=True):
    """`session` is gone on with; without one a session is begun with the other fields."""

    prompt: Annotated[str, Meta(description="What the agent shall do, in words.")] = ""
    session: Annotated[
        str,
        Meta(description="The session to go on with. Without one: the one used last here, else a new one."),
    ] = ""
    new_session: Annotated[bool, Meta(description="Begin another session even if one was used here.")] = False
    wait: Annotated[
        Wait,
        Meta(
            description='"turn" answers when the turn has ended; "none" at once, and wait_for_turn or the events '
            "of the session tell the rest."
        ),
    ] = "turn"
    timeout_s: Annotated[
        Seconds | None,
        Meta(description="Answer after so long in any case; the turn goes on and wait_for_turn waits again."),
    ] = None
    if_busy: Annotated[
        InputMode, Meta(description="While a turn runs: reject, queue, or steer into the turn.")
    ] = "reject"
    skill: Annotated[
        str, Meta(description="A skill or named prompt to run; the prompt is what it is about.")
    ] = ""


class WaitArguments(msgspec.Struct, frozen=True, kw_only=True):
    session: Session = ""
    input: Annotated[
        int | None, Meta(description="The input whose turn is meant, as run_agent_with_shell_access said.")
    ] = None
    timeout_s: Annotated[Seconds | None, Meta(description="Answer after so long in any case.")] = None


class AnswerArguments(msgspec.Struct, frozen=True, kw_only=True):
    session: Session = ""
    call_id: Annotated[str, Meta(description="The call that is asked about.")]
    answer: Annotated[
        PermissionChoice, Meta(description="deny. Anything else is a person's to say and is refused.")
    ] = "deny"
    note: Annotated[str, Meta(description="Why, for the agent that asked.")] = ""


class ModelArguments(msgspec.Struct, frozen=True, kw_only=True):
    session: Session = ""
    model: Annotated[str, Meta(description="provider:model")]


class ExitPlanArguments(msgspec.Struct, frozen=True, kw_only=True):
    session: Session = ""
    approve: Annotated[
        bool, Meta(description="false ends planning with nothing begun; true is a person's to say.")
    ] = False


class AgentTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `reads`: nothing changes by it. `reports`: it answers with what came of a turn."""

    name: str
    title: str
    about: str
    takes: type[msgspec.Struct]
    reads: bool = False
    reports: bool = False


TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        name="create_session",
        title="Begin a session",
        about="Begins a session of Bridle's coding agent in a folder. The person is told, and can watch and stop it.",
        takes=CreateArguments,
    ),
    AgentTool(
        name="list_sessions",
        title="List sessions",
        about="The sessions that this client may see, the one used last first.",
        takes=ListArguments,
        reads=True,
    ),
    AgentTool(
        name="attach_session",
        title="Attach to a session",
        about="Attaches to a session, which is opened where it was only stored. Later calls mean this one.",
        takes=SessionArguments,
    ),
    AgentTool(
        name="detach_session",
        title="Leave a session",
        about="Leaves a session; what runs in it goes on.",
        takes=SessionArguments,
    ),
    AgentTool(
        name="run_agent_with_shell_access",
        title="Run a coding agent that can use a shell",
        about="Gives a coding agent a task. It reads and changes files and runs shell commands in its folder, within "
        "the person's permissions and sandbox; what needs a yes waits for a person and is denied after a minute "
        "without one. Answers with what it said, what it cost, the tools it used, the files it changed and the calls "
        "that were denied.",
        takes=RunArguments,
        reports=True,
    ),
    AgentTool(
        name="wait_for_turn",
        title="Wait for a turn",
        about='Waits until a turn that was begun with wait: "none", or timed out, has ended, and says what came of it.',
        takes=WaitArguments,
        reads=True,
        reports=True,
    ),
    AgentTool(
        name="cancel_turn",
        title="Cancel the turn",
        about="Stops the turn that runs, with every command it started.",
        takes=SessionArguments,
    ),
    AgentTool(
        name="answer_permission",
        title="Refuse a question",
        about="Says no to a call that waits for a person. An agent cannot say yes.",
        takes=AnswerArguments,
    ),
    AgentTool(
        name="set_model",
        title="Change the model",
        about="The model of a session from its next turn on, of those the person has set up.",
        takes=ModelArguments,
    ),
    AgentTool(
        name="enter_plan_mode",
        title="Plan only",
        about="From now on the agent looks and plans, and changes nothing.",
        takes=SessionArguments,
    ),
    AgentTool(
        name="exit_plan_mode",
        title="End planning",
        about="Ends planning without carrying the plan out. Approving a plan is for a person.",
        takes=ExitPlanArguments,
    ),
    AgentTool(
        name="end_session",
        title="End a session",
        about="Ends a session and everything it runs. Its log stays.",
        takes=SessionArguments,
    ),
)
_BY_NAME: Mapping[str, AgentTool] = {tool.name: tool for tool in TOOLS}


def written_name(tool: AgentTool, names: ToolNames) -> str:
    return f"bridle.{tool.name}" if names == "dotted" else tool.name


def tool_called(name: str) -> AgentTool:
    """The tool a name means, in any of its spellings. Raises `UnknownTool`."""
    plain = next((name.removeprefix(one) for one in _PREFIXES if name.startswith(one)), name)
    tool = _BY_NAME.get(plain)
    if tool is None:
        raise CommandRefused("UnknownTool", tool=name[:100], known=", ".join(_BY_NAME))
    return tool


def arguments_of(tool: AgentTool, given: Mapping[str, Any]) -> Any:
    """What a call says, as its type has it; what nobody knows is left out. Raises `BadCommand`."""
    try:
        return msgspec.convert(dict(given), tool.takes)
    except msgspec.ValidationError as problem:
        raise CommandRefused("BadCommand", kind=tool.name, problem=str(problem)) from None


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a type whose fields are plain: one object, without references."""
    _, parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    found = parts.pop(kind.__name__)
    found.pop("title", None)
    found.pop("description", None)
    return {**found, **({"$defs": parts} if parts else {})}
