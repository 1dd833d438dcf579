"""Complete words in the draft.

Names of commands complete a first word that begins with `/`, what a command takes the words behind it, paths a word
that begins with `@`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from bridle.clients.interaction.composer.composer import Composer, replaced

SHOWN_MAX: Final = 12

Paths: TypeAlias = Callable[[], Sequence[str]]
"""Files and folders below the working folder, relative to it; a folder ends with a slash."""
Choices: TypeAlias = Callable[[str, int], Sequence[str]]
"""What may stand behind the command of this name, in this place; 0 is the first."""


class Completed(NamedTuple):
    """The draft afterwards, and what it could become further; both unchanged and empty where nothing fits."""

    composer: Composer
    options: tuple[str, ...] = ()


def completed(composer: Composer, *, names: Sequence[str], choices: Choices, paths: Paths) -> Completed:
    """Puts in what is certain: the only name that fits, or the beginning that all of them share."""
    start, word = _word_before(composer)
    if word.startswith("/") and start == 0:
        typed = word[1:]
        return _put(composer, start, "/", typed, _next_level(names, typed, ":") or _fitting(names, typed))
    if word.startswith("@"):
        typed = word[1:].removeprefix('"')
        known = paths()
        return _put(composer, start, "@", typed, _next_level(known, typed, "/") or _fitting(known, typed))
    command, *before = _words_until(composer, start) or ("",)
    if command.startswith("/"):
        known = choices(command[1:], len(before))
        return _put(composer, start, "", word, tuple(sorted(one for one in known if one.startswith(word))))
    return Completed(composer)


def options_words(options: Sequence[str]) -> str:
    more = f"   … {len(options) - SHOWN_MAX} more" if len(options) > SHOWN_MAX else ""
    return "  ".join(options[:SHOWN_MAX]) + more


def closest(name: str, names: Sequence[str]) -> str | None:
    """The name somebody most likely meant, if one is near enough."""
    from difflib import get_close_matches  # only after a slip

    near = [other for other in sorted(names) if other.startswith(name)][:1] or get_close_matches(
        name, names, n=1, cutoff=0.6
    )
    return near[0] if near else None


def _word_before(composer: Composer) -> tuple[int, str]:
    """Where the word before the cursor begins, and the word. A path in quotes is one word."""
    start = composer.at
    while start and not _ends_word(composer, start - 1):
        start -= 1
    quoted = _open_quote(composer)
    start = start if quoted is None else quoted
    return start, "".join(cell for cell in composer.cells[start : composer.at] if isinstance(cell, str))


def _words_until(composer: Composer, end: int) -> list[str]:
    """The words before this place; something that was pasted counts as one."""
    return "".join(cell if isinstance(cell, str) else " … " for cell in composer.cells[:end]).split()


def _ends_word(composer: Composer, at: int) -> bool:
    cell = composer.cells[at]
    return not isinstance(cell, str) or cell.isspace()


def _open_quote(composer: Composer) -> int | None:
    """The place of an `@"` before the cursor on this line that no quote has closed."""
    found = None
    at = 0
    while at < composer.at:
        if composer.cells[at] == "\n":
            found = None
        elif found is None and composer.cells[at : at + 2] == ("@", '"'):
            found = at
            at += 1
        elif found is not None and composer.cells[at] == '"':
            found = None
        at += 1
    return found


def _next_level(names: Sequence[str], typed: str, level: str) -> tuple[str, ...]:
    """What begins like this, one level at a time, as shells do with folders."""
    depth = typed.count(level)
    inside = [
        name for name in names if name.startswith(typed) and not (name == typed and name.endswith(level))
    ]
    return tuple(sorted({_first_parts(name, depth + 1, level) for name in inside}))


def _first_parts(name: str, count: int, level: str) -> str:
    parts = name.split(level)
    return name if len(parts) <= count else level.join(parts[:count]) + level


def _fitting(names: Sequence[str], typed: str) -> tuple[str, ...]:
    """Names that have the typed letters in this order, those that have them together first."""
    wanted = typed.lower()
    found = [name for name in names if wanted and _has_in_order(name.lower(), wanted)]
    return tuple(sorted(found, key=lambda name: (wanted not in name.lower(), len(name), name)))


def _has_in_order(name: str, wanted: str) -> bool:
    letters = iter(name)
    return all(letter in letters for letter in wanted)


def _put(composer: Composer, start: int, lead: str, typed: str, options: tuple[str, ...]) -> Completed:
    if not options:
        return Completed(composer)
    if len(options) == 1:
        return Completed(replaced(composer, start, composer.at, _written(lead, options[0])))
    common = common_beginning(options)
    if len(common) > len(typed) and common.startswith(typed):
        composer = replaced(composer, start, composer.at, lead + _quoted(common))
    return Completed(composer, tuple(lead + option for option in options))


def common_beginning(options: Sequence[str]) -> str:
    """What all of them begin with."""
    first, last = min(options), max(options)
    same = next((at for at, letter in enumerate(first) if last[at] != letter), len(first))
    return first[:same]


def _written(lead: str, whole: str) -> str:
    """The only choice, ready to write on behind it; a folder or a namespace may go deeper."""
    if whole.endswith(("/", ":")):
        return lead + _quoted(whole)
    return lead + _quoted(whole) + ('" ' if " " in whole else " ")


def _quoted(path: str) -> str:
    return f'"{path}' if " " in path else path
