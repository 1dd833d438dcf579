"""Everything a client can ask of a session: one closed union.

Plugins extend it with `CustomCommand` alone. Fields a reader does not know are ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from bridle.protocol.events import InputChange, InputMode, Mode
from bridle.protocol.messages import Effort, InputBlock
from bridle.protocol.questions import AnyAnswer

SystemText: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")]
"""What a system takes as a path, a name or a variable: no character of it ends it."""
PermissionChoice: TypeAlias = Literal["once", "pattern", "tool", "always", "deny"]


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True, omit_defaults=True):
    """Something a client asks for. Defined only in this file.

    `id` is chosen by the client: the same one twice is one command with one answer.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:-]{0,128}$")] = ""


class SessionOptions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The options of a session. A default leaves the choice to the settings.

    `wide_folder` is a folder that the user chose to work in although it holds more than a project.
    """

    yes: bool = False
    allow_policy_changes: bool = False
    allow_unsandboxed: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_steps: int | None = None
    config_file: SystemText | None = None
    sets: tuple[str, ...] = ()
    persistent_grants: bool | None = None
    add_dirs: tuple[SystemText, ...] = ()
    dry_run: bool = False
    on_ask: Literal["deny", "fail", "wait"] = "deny"
    on_orphan: Literal["ask", "fail", "mark-unknown"] = "fail"
    lockfile: SystemText | None = None
    require_trust: bool = False
    allow_project_hooks: bool = False
    sandbox: str | None = None
    network: str | None = None
    allow_hosts: tuple[str, ...] = ()
    append_system: str = ""
    effort: str | None = None
    max_cost: float | None = None
    title: str | None = None
    headless: bool = False
    wide_folder: SystemText | None = None
    transcript: SystemText | None = None
    output_schema: dict[str, Any] | None = None
    memory: bool | None = None
    agent_mode: Literal["single", "multi"] | None = None


class CreateSession(Command, frozen=True):
    """Opens a new session in `cwd`, or a stored one when `resume` names it.

    `env` is the caller's allow-listed environment; the session's tools run with it. With `carry_from` a new one begins
    with a summary of the last `carry_turns` turns of that session, which stays as it is. For people.
    """

    cwd: SystemText
    env: dict[SystemText, SystemText] = {}
    profile: SystemText | None = None
    agent: str | None = None
    model: str | None = None
    mode: Mode | None = None
    config: SessionOptions = SessionOptions()
    resume: str | None = None
    aliases: tuple[str, ...] = ()
    carry_from: str | None = None
    carry_turns: Annotated[int, msgspec.Meta(ge=1, le=50)] = 5


class AttachSession(Command, frozen=True):
    session: str
    since: int = 0
    fs_read: bool = False


class DetachSession(Command, frozen=True):
    session: str


class EndSession(Command, frozen=True):
    """`leaving`: because the program that had it opened ends, and not because a person wants it."""

    session: str
    leaving: bool = False


class SendInput(Command, frozen=True):
    session: str
    content: tuple[InputBlock, ...]
    mode: InputMode = "reject"


class ChangeInput(Command, frozen=True):
    """Changes an input that waits for its turn, by the event that accepted it. `content` is for an `edit`."""

    session: str
    input: int
    change: InputChange
    content: tuple[InputBlock, ...] = ()


class AskAside(Command, frozen=True):
    """A question to the model beside the conversation, which stays as it is. A turn may run meanwhile."""

    session: str
    question: str


class ShellRequest(Command, frozen=True):
    """A shell command the person typed with `!`. Every layer applies; only the question is skipped."""

    session: str
    command: str
    share: bool = False


class RunSlash(Command, frozen=True):
    session: str
    name: str
    arguments: str = ""


class CancelTurn(Command, frozen=True):
    """Stops the running turn and everything below it; with `invocation` that child alone, and its turn goes on."""

    session: str
    invocation: str | None = None


class AnswerPermission(Command, frozen=True):
    """`digest` is the one of the question that was shown; a changed question refuses the answer."""

    session: str
    call_id: str
    answer: PermissionChoice
    note: str = ""
    digest: str = ""


class AnswerQuestion(Command, frozen=True):
    """`answer` is about what the question was about; one about something else is refused."""

    session: str
    question_id: str
    answer: AnyAnswer


class AnswerTrust(Command, frozen=True):
    """Answers the open question whether this content of a file or program may be used, for who names it."""

    session: str
    path: str
    sha256: str
    trusted: bool


class SetModel(Command, frozen=True):
    session: str
    model: str


class SetMode(Command, frozen=True):
    session: str
    mode: Mode


class SetEffort(Command, frozen=True):
    """How much the model thinks, from the next turn on."""

    session: str
    effort: Effort


class EnterPlanMode(Command, frozen=True):
    session: str


class ExitPlanMode(Command, frozen=True):
    session: str
    approve: bool


class RevokeGrant(Command, frozen=True):
    session: str
    grant_id: str


class PromoteGrant(Command, frozen=True):
    """A remembered yes becomes a rule of the person's own settings, for later sessions in every folder.

    A `Notice` with the reason `GrantPromoted` says where it stands. For people.
    """

    session: str
    grant_id: str


class SaveModel(Command, frozen=True):
    """The model that new sessions of this person begin with, as `provider:model`. For people.

    It must be there for a session made with `create`, or by the person's own settings.
    """

    model: str
    create: CreateSession | None = None


class ConnectProvider(Command, frozen=True):
    """A key for a provider, stored where the person's keys are once it has shown that it is good. For people.

    Nobody repeats the key: not the log, not an answer, not a refusal. `create` as in `SaveModel`.
    """

    provider: str
    key: str
    create: CreateSession | None = None

    def __repr__(self) -> str:
        return f"ConnectProvider(provider={self.provider!r}, key=…)"


class Undo(Command, frozen=True):
    session: str
    turn: int | None = None
    redo: bool = False


class RenameSession(Command, frozen=True):
    """Gives a session a title of a person's choice; after an empty one the next input names it."""

    session: str
    title: str


class PinSession(Command, frozen=True):
    """Keeps the content of a session for as long as there is room, or no longer."""

    session: str
    pinned: bool = True


class BranchSession(Command, frozen=True):
    """Begins a session as another was after a turn, or after its last. The answer names the new one."""

    session: str
    turn: int | None = None


class DeleteSession(Command, frozen=True):
    """Deletes everything of a session that nobody has open."""

    session: str


class CustomCommand(Command, frozen=True):
    namespace: str
    verb: str
    session: str | None = None
    payload: dict[str, Any] = {}


AnyCommand: TypeAlias = (
    CreateSession
    | AttachSession
    | DetachSession
    | EndSession
    | SendInput
    | ChangeInput
    | AskAside
    | ShellRequest
    | RunSlash
    | CancelTurn
    | AnswerPermission
    | AnswerQuestion
    | AnswerTrust
    | SetModel
    | SetMode
    | SetEffort
    | EnterPlanMode
    | ExitPlanMode
    | RevokeGrant
    | PromoteGrant
    | SaveModel
    | ConnectProvider
    | Undo
    | RenameSession
    | PinSession
    | BranchSession
    | DeleteSession
    | CustomCommand
)


class Accepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a command that was taken. `event` is the id of the event that records it, if one does; `session` is
    empty for a command about none.

    For a session that was opened, that is its last one so far, and `opened` the `SessionCreated` of this run of it.
    """

    session: str
    event: int | None = None
    opened: int | None = None
