"""Short names of a person's own: `aliases.toml` with lines like `t = "/user:tidy now"`. Pure.

An alias is another way to type a command, and nothing more: what it stands for is looked at as if it had been typed. A
client puts it in place before it sends anything, so an alias gives nobody a right. It takes no name that is there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from bridle.base.text.terminal_text import visible_line
from bridle.protocol.slash_arguments import ALIAS

FILE: Final = "aliases.toml"
MAX_BYTES: Final = 64 * 1024
MAX_ALIASES: Final = 200
MAX_LINE: Final = 1000
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_LINE: Final = re.compile(r"/([A-Za-z][\w:-]*)(?:[ \t]+(\S.*))?")


class Aliases(msgspec.Struct, frozen=True):
    """`lines` by name: what each stands for, whole. `problems` say, each as a clause, which are refused and why."""

    lines: Mapping[str, str] = {}
    problems: tuple[str, ...] = ()


def read_aliases(data: bytes, taken: Collection[str]) -> Aliases:
    """What a file says. One that means nothing is refused and named, the rest count. `taken` are names there are."""
    try:
        values = tomllib.loads(data.decode())
    except UnicodeDecodeError:
        return Aliases(problems=("it is not UTF-8 text",))
    except (tomllib.TOMLDecodeError, RecursionError) as bad:
        return Aliases(problems=(f"none of it counts: {visible_line(str(bad))[:200]}",))
    problems: list[str] = []
    written: dict[str, str] = {}
    for name, line in values.items():
        if problem := _problem(name, line, taken):
            problems.append(f'"{visible_line(name)[:40]}" {problem}')
        elif len(written) < MAX_ALIASES:
            written[name] = line.strip()
        else:
            problems.append(f'"{name}" is one too many (at most {MAX_ALIASES} count)')
    lines: dict[str, str] = {}
    for name in written:
        whole = _whole(name, written)
        if isinstance(whole, tuple):
            problems.append(f'"{name}" leads back to itself ({" → ".join(f"/{one}" for one in whole)})')
        else:
            lines[name] = whole
    return Aliases(lines=lines, problems=tuple(problems))


def _problem(name: str, line: object, taken: Collection[str]) -> str:
    if _NAME.fullmatch(name) is None:
        return "is no name for an alias (a small letter, then small letters, digits, - and _; 32 at most)"
    if name in taken:
        return "is the name of a command or a namespace already: take another"
    if not isinstance(line, str) or len(line) > MAX_LINE or _LINE.fullmatch(line.strip()) is None:
        return 'stands for no command: write one in a line, like "/user:tidy now"'
    return ""


def _whole(name: str, written: Mapping[str, str]) -> str | tuple[str, ...]:
    """What an alias stands for with those it is made of put in; the names in their order where they go round."""
    seen, behind, at = [name], "", name
    while True:
        found = _LINE.fullmatch(written[at])
        assert found is not None
        behind = " ".join(filter(None, (found[2] or "", behind)))
        at = found[1].removeprefix(ALIAS)
        if at not in written:
            return f"/{found[1]} {behind}".rstrip()
        seen.append(at)
        if at in seen[:-1]:
            return tuple(seen)
