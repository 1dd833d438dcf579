"""What a person can be asked besides permission, and what they can answer: two closed unions of plain data.

Every question says what it is about, and has its own type of answer. How either is worded is the client's affair:
nobody has to read a text to know what is asked, or to write one to answer it.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from bridle.base.text.line_diff import DiffLine

TrustKind: TypeAlias = Literal[
    "instructions", "skill", "hook", "config", "settings", "mcp_server", "agent", "plugin", "command"
]
UndoDeed: TypeAlias = Literal["created", "changed", "deleted"]
GitDeed: TypeAlias = Literal["branch", "commit", "publish", "worktree", "stash", "merge", "drop"]


class _Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a question."""


class Question(_Data, frozen=True, tag_field="about"):
    """Something a person is asked. Defined only in this file."""


class Answer(_Data, frozen=True, tag_field="about"):
    """What came back. Defined only in this file."""


# The model's own questions


class OpenQuestion(Question, frozen=True, tag="words"):
    """A question in words. `choices` are likely answers; any other words answer it too."""

    text: str
    choices: tuple[str, ...] = ()


class WordsAnswer(Answer, frozen=True, tag="words"):
    text: str


class PlanQuestion(Question, frozen=True, tag="plan"):
    """Whether the model may leave plan mode and carry this out."""

    plan: str


class PlanAnswer(Answer, frozen=True, tag="plan"):
    """`note` is what to think about instead."""

    approve: bool
    note: str = ""


# Trust


class HiddenCharacters(_Data, frozen=True):
    """Characters of a line that a screen does not show: the first of them, and how many there are."""

    line: int
    code: int
    count: int = 1


class LaunchShown(_Data, frozen=True):
    """A program as it would be started. `fetched` names what it brings from the network, as it is then; `unpinned` says
    what of it can be other code the next time."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = "."
    program: str = ""
    files: tuple[str, ...] = ()
    fetched: str = ""
    command: str = ""
    unpinned: str = ""


class TrustQuestion(Question, frozen=True, tag="trust"):
    """Whether a file of the workspace may be obeyed, or a program of it be started.

    `lines` are the whole text, or, where `compared`, the change since an older content was trusted at `trusted_ms`.
    `wishes` are what a settings file asks for; `runs` is the command that would run the file, `when` the moment.
    `offered`: it is written for another agent and nobody named it; a no is for good, in this project.
    """

    kind: TrustKind
    path: str
    sha256: str
    asked_ms: int
    lines: tuple[DiffLine, ...] = ()
    line_count: int = 0
    compared: bool = False
    added: int = 0
    removed: int = 0
    trusted_ms: int | None = None
    changed_ms: int | None = None
    owner: str = ""
    wishes: tuple[str, ...] = ()
    runs: str = ""
    when: str = ""
    launch: LaunchShown | None = None
    truncated: bool = False
    touches_code: bool = False
    hidden: tuple[HiddenCharacters, ...] = ()
    hidden_lines: int = 0
    offered: bool = False


class TrustAnswer(Answer, frozen=True, tag="trust"):
    use: bool


# Money and steps


class BudgetQuestion(Question, frozen=True, tag="budget"):
    """What to do about a request that could cost more than is left, or whose price nobody knows.

    `raise_to_usd` is the limit a yes would set; `cheaper` names a model that costs less.
    """

    reason: Literal["BudgetExceeded", "PriceUnknown"]
    model: str
    cap_usd: float
    spent_usd: float
    could_usd: float = 0.0
    raise_to_usd: float | None = None
    cheaper: str | None = None


class BudgetAnswer(Answer, frozen=True, tag="budget"):
    """`unlimited` goes on without the limit, for a model whose price nobody knows."""

    choice: Literal["raise", "cheaper", "unlimited", "stop"]


class StepLimitQuestion(Question, frozen=True, tag="step_limit"):
    """Whether a turn of so many steps may take as many more."""

    steps: int
    more: int


class StepLimitAnswer(Answer, frozen=True, tag="step_limit"):
    go_on: bool


# Undo


class UndoFile(_Data, frozen=True):
    """A file that changes. `did` is what the calls did to it; it `becomes` what it was, and has `mode` again."""

    path: str
    did: UndoDeed
    becomes: Literal["removed", "restored", "mode", "goes back", "changed again"]
    mode: int | None = None
    added: int | None = None
    removed: int | None = None


class UndoRepository(_Data, frozen=True):
    """The files of a repository, too many to be told one by one: those people know by name, and how many others."""

    path: str
    did: UndoDeed
    becomes: Literal["removed", "restored"]
    names: tuple[str, ...] = ()
    refs: int = 0
    others: int = 0


class UndoObjects(_Data, frozen=True):
    """Objects a repository misses and gets back."""

    path: str
    loose: int = 0
    packs: int = 0


class UndoImpossible(_Data, frozen=True):
    path: str
    did: UndoDeed
    why: str


class UndoMissed(_Data, frozen=True):
    """What no undo covers, by reason."""

    why: str
    names: tuple[str, ...]


class UndoConflict(_Data, frozen=True):
    """A file that is not as the calls left it: by a later turn, or by somebody else so long ago."""

    path: str
    since: Literal["undo", "turn", "calls"]
    gone: bool = False
    by_turn: int | None = None
    age_ms: int | None = None


class UndoPreview(_Data, frozen=True):
    """What would happen to each file, and what would not."""

    redo: bool = False
    scope: Literal["turn", "call", "session", "calls"] = "calls"
    turn: int | None = None
    title: str = ""
    files: tuple[UndoFile, ...] = ()
    more_files: int = 0
    repositories: tuple[UndoRepository, ...] = ()
    objects: tuple[UndoObjects, ...] = ()
    done: tuple[str, ...] = ()
    conflicts: tuple[UndoConflict, ...] = ()
    impossible: tuple[UndoImpossible, ...] = ()
    missed: tuple[UndoMissed, ...] = ()


class UndoQuestion(Question, frozen=True, tag="undo"):
    preview: UndoPreview


class UndoAnswer(Answer, frozen=True, tag="undo"):
    choice: Literal["go", "diff", "keep"]


class ConflictQuestion(Question, frozen=True, tag="conflict"):
    """What to do with a file that somebody else has changed since."""

    conflict: UndoConflict


class ConflictAnswer(Answer, frozen=True, tag="conflict"):
    choice: Literal["skip", "overwrite", "stop"]


# Git, as the person


class GitFile(_Data, frozen=True):
    """A file that goes into a commit."""

    path: str
    did: Literal["added", "changed", "deleted", "renamed"]


class GitHook(_Data, frozen=True):
    """A program of the repository that git runs on the way. `changed`: it is not as it was committed."""

    path: str
    changed: bool = False


class GitQuestion(Question, frozen=True, tag="git"):
    """Whether these commands are run, in this order, in this folder: by the person, outside the sandbox.

    `message` is the commit's, as it will be; `no_draft` says why the model wrote none. `branch` is the one checked out,
    empty where none is. `new_files` are left out of the commit: git does not know them.
    """

    deed: GitDeed
    cwd: str
    commands: tuple[tuple[str, ...], ...]
    branch: str = ""
    message: str = ""
    no_draft: str = ""
    files: tuple[GitFile, ...] = ()
    more_files: int = 0
    new_files: tuple[str, ...] = ()
    more_new_files: int = 0
    hooks: tuple[GitHook, ...] = ()
    merges: bool = False


class GitAnswer(Answer, frozen=True, tag="git"):
    """`edit` gives another message, which is asked about again; `draft` has the model write another one, by `text`."""

    choice: Literal["go", "edit", "draft", "keep"]
    text: str = ""


# After a crash


class OrphanQuestion(Question, frozen=True, tag="orphan"):
    """What became of a call that Bridle did not see end: the n-th of so many. `now` is what is there, in short lines.

    `not_undoable` says in a few words why it cannot be undone; empty where it can.
    """

    tool: str
    input: dict[str, Any]
    started_ms: int
    stopped_ms: int
    number: int = 1
    count: int = 1
    now: tuple[str, ...] = ()
    not_undoable: str = ""


class OrphanAnswer(Answer, frozen=True, tag="orphan"):
    """`note` is for the model, which must then look for itself."""

    judgement: Literal["happened", "did_not", "unknown", "undo", "later"]
    note: str = ""


# Servers


class InputField(_Data, frozen=True):
    """One thing a server wants to know. `choices` are all there are; of `many` any number may be named, with commas.

    `default` is what it is where nobody says anything else, as it would be written.
    """

    name: str
    title: str = ""
    about: str = ""
    kind: Literal["text", "number", "whole number", "yes or no"] = "text"
    choices: tuple[str, ...] = ()
    many: bool = False
    required: bool = False
    default: str = ""


class InputQuestion(Question, frozen=True, tag="input"):
    """What a server asks a person for while it works: one field of a form, the n-th of so many, or a visit to `url`.

    `problem` says what was wrong with the answer before. Its words are the server's: nobody has checked them.
    """

    server: str
    message: str
    url: str = ""
    field: InputField | None = None
    number: int = 1
    count: int = 1
    problem: str = ""


class InputAnswer(Answer, frozen=True, tag="input"):
    """`text` is what was written; empty takes the default. A `declined` question gives the server nothing."""

    declined: bool = False
    text: str = ""


class SampledMessage(_Data, frozen=True):
    """A message that a server wants the model to read."""

    role: Literal["user", "assistant"]
    text: str


class SamplingQuestion(Question, frozen=True, tag="sampling"):
    """Whether the model of the session may answer these messages of a server, in so many tokens.

    Its words are the server's: nobody has checked them. What is left is left for all servers of this session.
    """

    server: str
    messages: tuple[SampledMessage, ...]
    max_tokens: int
    system: str = ""
    requests_left: int = 0
    tokens_left: int = 0


class SamplingAnswer(Answer, frozen=True, tag="sampling"):
    """A yes is for these messages and no others."""

    allow: bool = False


# Tokens


class TokenQuestion(Question, frozen=True, tag="token"):
    """Somebody asks for a token and has a minute to bring this code. It is told to one person and never stored.

    `sessions` and `commands` are what it would be for; no commands are all of them.
    """

    code: str
    identity: Literal["human", "agent"]
    sessions: tuple[str, ...] = ()
    commands: tuple[str, ...] | None = None
    name: str = ""
    can_mint: bool = False
    life_s: int = 0


class TokenAnswer(Answer, frozen=True, tag="token"):
    """A no voids the request; a yes is the code itself, brought by whoever asked."""

    allow: bool = False


AnyQuestion: TypeAlias = (
    OpenQuestion
    | PlanQuestion
    | TrustQuestion
    | BudgetQuestion
    | StepLimitQuestion
    | UndoQuestion
    | ConflictQuestion
    | GitQuestion
    | OrphanQuestion
    | InputQuestion
    | SamplingQuestion
    | TokenQuestion
)
AnyAnswer: TypeAlias = (
    WordsAnswer
    | PlanAnswer
    | TrustAnswer
    | BudgetAnswer
    | StepLimitAnswer
    | UndoAnswer
    | ConflictAnswer
    | GitAnswer
    | OrphanAnswer
    | InputAnswer
    | SamplingAnswer
    | TokenAnswer
)


def about(data: AnyQuestion | AnyAnswer) -> str:
    """What a question or an answer is about: the two fit when this is the same."""
    tag = type(data).__struct_config__.tag
    assert isinstance(tag, str)
    return tag
