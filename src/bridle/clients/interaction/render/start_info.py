"""The first lines of a session: folder, model, mode and their sources; marks of stored sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.protocol.events import Mode, SessionCreated

if TYPE_CHECKING:
    from bridle.protocol.queries import SessionInfo

_DAY_MS = 86_400_000


def marks(session: SessionInfo, now_ms: int) -> str:
    """The state, origin and expiry of a stored session; empty where nothing is special."""
    found = (
        {"stored": "", "open": "● open", "waiting": "● waiting for your answer"}[session.state],
        "(run)" if session.headless else "",
        "(imported)" if session.imported_ms is not None else "",
        "content expired" if session.expired_ms is not None else _expiry(session.expires_ms, now_ms),
    )
    return "  ".join(filter(None, found))


def _expiry(expires_ms: int | None, now_ms: int) -> str:
    if expires_ms is None:
        return ""
    left_days = max(0, expires_ms - now_ms) // _DAY_MS
    if left_days < 1:
        return "content expires today"
    return f"content expires in {counted(left_days, 'day')}"


def folder_words(folder: str, home: str) -> str:
    """A folder as people write it, `~/code/shop`."""
    home = home.rstrip("/")
    inside = bool(home) and (folder == home or folder.startswith(home + "/"))
    return f"~{folder.removeprefix(home)}" if inside else folder


MODE_WORDS: Final[dict[Mode, str]] = {
    "strict": "everything asks first",
    "default": "reading is quiet; changes, commands and network ask first",
    "safe": "reading only; nothing is asked, everything else is denied",
    "auto": "only what may do harm asks first",
    "yolo": "nothing asks first but leaving the sandbox and changing policy files",
    "plan": "reading only, until you leave plan mode",
}

CONFINED_WORDS: Final = {
    "workspace-write": "commands can write in this folder and a private /tmp",
    "read-only": "commands can write in a private /tmp only",
    "off": "commands run with your rights",
}


_NAMED_HOSTS: Final = 3


class StartLine(msgspec.Struct, frozen=True):
    """One line at the start: a name, its value, and where it comes from or what it means. `weak`: not all that it
    could be, which is said every time.
    """

    name: str
    value: str
    detail: str = ""
    weak: bool = False

    @property
    def words(self) -> str:
        return " ".join(filter(None, (self.value, self.detail)))


def sandbox_line(created: SessionCreated | None) -> StartLine | None:
    """The sandbox of this session; None where a warning reports that it is missing."""
    if created is None or not created.sandbox or (created.confined == "off" and created.sandbox != "off"):
        return None
    reach = (
        f", and reach {_reach(created)}" if created.network != "inherit" and created.confined != "off" else ""
    )
    weak = created.confined == "off"
    return StartLine("sandbox", created.sandbox, CONFINED_WORDS[created.confined] + reach, weak)


def network_text(created: SessionCreated) -> str:
    """The network access of commands in a word or two; empty where it is not limited."""
    if created.network == "inherit" or created.confined == "off":
        return ""
    if created.network == "deny":
        return "network off"
    return f"network filtered ({counted(len(created.hosts), 'host')})"


def _reach(created: SessionCreated) -> str:
    """The hosts that a command with limited network can reach."""
    if not created.hosts:
        return "no network" if created.network == "deny" else "no host (sandbox.hosts is empty)"
    named = [visible_line(host) for host in created.hosts[:_NAMED_HOSTS]]
    more = len(created.hosts) - len(named)
    return "only " + ", ".join(named) + (f" and {more} more" if more else "")


class StartInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about this start that the engine does not know.

    `branch` is the git branch of the folder, `model_from` says where the choice of model came from, `lines` are further
    start lines. `said` is what the last start here said of each, and `keep` keeps what this one says.
    """

    version: str = ""
    branch: str = ""
    model_from: str = ""
    lines: tuple[StartLine, ...] = ()
    said: Mapping[str, str] = {}
    keep: Callable[[Mapping[str, str]], None] = lambda _said: None


def start_title(start: StartInfo, folder: str) -> str:
    """The first line: the program, and the folder as people write it."""
    where = visible_line(f"{folder} (git {start.branch})" if start.branch else folder)
    return " · ".join(filter(None, (f"Bridle {start.version}".rstrip(), where)))


def start_lines(
    start: StartInfo, *, model: str, mode: Mode, created: SessionCreated | None, keys: str = ""
) -> list[StartLine]:
    """Each choice this session begins with, and its source; `keys` says the same of the model's key."""
    model_from = ", ".join(filter(None, (start.model_from, keys)))
    chosen = (StartLine("model", model, model_from), mode_line(mode), sandbox_line(created))
    return [*filter(None, chosen), *start.lines]


def new_lines(start: StartInfo, lines: Sequence[StartLine]) -> list[StartLine]:
    """Of all lines those to say now, and what is said is kept: the model always, others where they are new or weak."""
    start.keep({line.name: line.words for line in lines})
    return [
        line for line in lines if line.name == "model" or line.weak or start.said.get(line.name) != line.words
    ]


def rules_line(used: Sequence[str], waiting: Sequence[str]) -> StartLine:
    """Which instruction files the model is told of, and which lie there without anybody's word on them."""
    loaded = ", ".join(visible_line(shown) for shown in used) or "none loaded"
    found = ", ".join(visible_line(shown) for shown in waiting)
    detail = (
        f"{found} found, not trusted yet" if found else "" if used else "no AGENTS.md here; /init writes one"
    )
    return StartLine("rules", loaded, detail, weak=bool(waiting))


def mode_line(mode: Mode) -> StartLine:
    return StartLine("mode", mode, MODE_WORDS[mode], weak=mode in ("auto", "yolo"))


def start_hint(covers: Callable[[str], bool]) -> str:
    """Return the hint before the first message: what the user can do here, as far as their token says."""
    if not covers("SendInput"):
        does = "answer what is asked" if covers("AnswerPermission") else "look on"
        stops = "Ctrl-C stops the turn, twice leaves" if covers("CancelTurn") else "Ctrl-C twice leaves"
        return f"You can {does} here, and nothing else is sent.  / commands   {stops}"
    shell = "   ! shell" if covers("ShellRequest") else ""
    stops = "Ctrl-C stops, twice leaves" if covers("CancelTurn") else "Ctrl-C twice leaves"
    return f"Type what you want.  / commands   @ files{shell}   {stops}"
