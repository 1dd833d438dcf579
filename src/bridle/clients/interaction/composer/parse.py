"""Parse a typed line: a message, a shell command or a slash command.

Text is never interpreted behind this door: `@path`, `!command` and `/name` become typed things here or stay text. A
leading blank or a second slash makes anything text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from bridle.base.text.terminal_text import visible_line
from bridle.protocol.messages import FileMention, InputBlock, TextBlock

_SLASH: Final = r"/([a-z][a-z0-9_-]*(?::[A-Za-z0-9_.-]+)*)(?:\s+(.*))?"
_MENTION: Final = r'(?<!\S)@(?:"([^"\n]+)"|(\S+))'
_RESOURCE: Final = r"[A-Za-z0-9_.-]+:[a-z][a-z0-9+.-]*:\S+"
"""What a server has to read: its name, and the address."""
_HABITS: Final = {"exit": "quit", "quit": "quit", "help": "help", "?": "help"}
"""Words that alone mean a command wherever one types."""
_TRAILING: Final = ".,;:!?)]}'\""

Exists: TypeAlias = Callable[[str], bool]
"""Whether a path, relative to the session's folder, names a file."""


_SCREENS: Final = """
vi vim nvim view vimdiff nano pico joe micro helix hx kak ed less more most man info top htop btop atop mc ranger nnn
lazygit tig gitui watch telnet ftp sftp passwd visudo dialog whiptail
"""
"""Programs that can only be used at a terminal."""
_SHELLS: Final = "ssh psql mysql sqlite3 gdb lldb crontab fzf emacs screen tmux"
"""Programs for which that holds unless something is written behind their name."""
_LEADS: Final = "sudo doas env nice nohup time command exec"


class Words(msgspec.Struct, frozen=True):
    """Input for the model."""

    content: tuple[InputBlock, ...]


class Shell(msgspec.Struct, frozen=True):
    """A command the person runs; `share` says that the model sees it too."""

    command: str
    share: bool


class Slash(msgspec.Struct, frozen=True):
    name: str
    arguments: str


Typed: TypeAlias = Words | Shell | Slash | None


def parse(text: str, exists: Exists) -> Typed:
    """The meaning of what was typed; None when there is nothing in it."""
    if not text.strip():
        return None
    if text[0].isspace():
        return _words(text.strip(), exists)
    if text.startswith("//"):
        return _words(text[1:], exists)
    if text.startswith("!"):
        share = text.startswith("!!")
        command = text[2 if share else 1 :].strip()
        return Shell(command, share) if command else _words(text, exists)
    if meant := _HABITS.get(text.rstrip()):
        return Slash(meant, "")
    if slash := re.fullmatch(_SLASH, text.rstrip(), re.DOTALL):
        return Slash(slash[1], (slash[2] or "").strip())
    return _words(text, exists)


def interactive_program(command: str) -> str | None:
    """The program of a simple command that can only be used at a terminal; None where none is known to be."""
    words = command.split()
    while words and (words[0] in _LEADS.split() or re.fullmatch(r"[A-Za-z_]\w*=\S*", words[0])):
        words.pop(0)
    if not words or any(sign in command for sign in "|<>;&\n"):
        return None
    program = words[0].rpartition("/")[2]
    alone = len(words) == 1 and program in _SHELLS.split()
    return program if alone or program in _SCREENS.split() else None


def missing_files(text: str, exists: Exists) -> list[str]:
    """What to say of each file that words point at and that is not there; `@word` alone may be anything."""
    return [
        f'There is no file "{visible_line(name)}" here; it was sent as it stands.'
        for found in re.finditer(_MENTION, text)
        if _mentioned(found, exists) is None
        and (name := found[1] or found[2].rstrip(_TRAILING))
        and (found[1] or "." in name or "/" in name)
    ]


def _words(text: str, exists: Exists) -> Words:
    """The text in pieces: what stands between mentions, and each mention of a file that is there."""
    content: list[InputBlock] = []
    done = 0
    for found in re.finditer(_MENTION, text):
        path = _mentioned(found, exists)
        if path is None:
            continue
        if before := text[done : found.start()]:
            content.append(TextBlock(text=before))
        content.append(FileMention(path=path))
        done = found.end() if found[1] else found.start() + 1 + len(path)
    if rest := text[done:]:
        content.append(TextBlock(text=rest))
    return Words(tuple(content))


def _mentioned(found: re.Match[str], exists: Exists) -> str | None:
    if found[1]:
        return found[1] if exists(found[1]) else None
    path = found[2]
    if re.fullmatch(_RESOURCE, path) and not exists(path):
        return path.rstrip(_TRAILING)
    while path and not exists(path):
        if path[-1] not in _TRAILING:
            return None
        path = path[:-1]
    return path or None
