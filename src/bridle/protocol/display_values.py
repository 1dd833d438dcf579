"""What a call did, as data for whoever shows it: one closed union beside the text that is for the model.

A client needs no other source to show a result, and none of it reaches the model. A result without such a value is
plain: its text is all there is. Defined only in this file.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class _Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of what is shown."""


class _Shown(_Data, frozen=True, tag_field="as"):
    """What a result is shown as."""


class EditedFile(_Data, frozen=True):
    """What a call made of a file. Words as in `FileChange`, which says what it would make of it.

    `diff` is unified text of bounded size; empty where nothing of the text changed, where it cannot be compared, and
    where it has no room (`cut`). The counts are of the whole change; `removed` is None where nobody can tell.
    """

    path: str
    kind: Literal["create", "change", "delete", "move"] = "change"
    moved_from: str | None = None
    diff: str = ""
    cut: bool = False
    added: int = 0
    removed: int | None = 0


class ShownEdit(_Shown, frozen=True, tag="edit"):
    """Files that were changed."""

    files: tuple[EditedFile, ...]


class ShownCommand(_Shown, frozen=True, tag="command"):
    """A command, or one in the background. `exit_code` is None while it runs, and negative for a signal.

    `lines` counts all it printed, whatever of it was kept. `sandbox` names what held it; `blocked`: it was kept from
    something. `reached` and `refused` are hosts, where the network is filtered. `changed` are the files it changed, as
    undo saw it, those of repositories left out; at most some hundred of them.
    """

    exit_code: int | None = None
    lines: int = 0
    sandbox: str = ""
    blocked: bool = False
    reached: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class ShownRead(_Shown, frozen=True, tag="read"):
    """Lines of a file, counted from 1; none of an empty one."""

    first_line: int = 1
    last_line: int = 0


class ShownSearch(_Shown, frozen=True, tag="search"):
    """What was found: lines, files or entries of a folder. `files` have those lines. `more`: it is not all."""

    found: int
    files: int = 0
    more: bool = False


class ShownServerResult(_Shown, frozen=True, tag="server_result"):
    """What a tool of a server gave back. `structured` is the value it gave beside its words, as JSON, if that is not
    long; nobody has checked it. `pictures` counts the images it gave."""

    server: str
    tool: str
    structured: str = ""
    pictures: int = 0


class ShownChild(_Shown, frozen=True, tag="child"):
    """An agent that worked on something, or still does in the background."""

    invocation: str
    agent: str
    steps: int = 0
    usd: float = 0.0
    ended: bool = True


class ShownJudgement(_Shown, frozen=True, tag="judgement"):
    """What became of a call that nobody saw end, by the word of the client `by`; of nobody, where it is empty."""

    judgement: Literal["happened", "did not happen", "unknown", "undone"]
    by: str = ""


class ShownWait(_Shown, frozen=True, tag="wait"):
    """Nobody answered the question about the call in this time."""

    waited_s: float


AnyShown: TypeAlias = (
    ShownEdit
    | ShownCommand
    | ShownRead
    | ShownSearch
    | ShownServerResult
    | ShownChild
    | ShownJudgement
    | ShownWait
)
