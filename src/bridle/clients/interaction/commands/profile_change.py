"""`/profiles`: choose another profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.clients.interaction.composer.choice_list import ChoiceList, ChoiceRow
from bridle.protocol.queries import ProfileDescription, ProfileEntry

TURNS: Final = 5
"""So many of the last turns are taken along unless somebody says otherwise."""
MOST_TURNS: Final = 50
USAGE: Final = "/profiles:NAME [--import [N]|--no-import]   a new session; --in-place changes this one"


class ProfileChange(msgspec.Struct, frozen=True):
    """What somebody wants: a profile for a new session or this one. `turns` are to be taken along; None: not said yet.

    One that changes this session counts when it is `sure`.
    """

    name: str
    in_place: bool = False
    turns: int | None = None
    sure: bool = False

    @property
    def is_complete(self) -> bool:
        return self.sure if self.in_place else self.turns is not None


def parse_change(arguments: str) -> ProfileChange | None:
    """`careful --import 3`; None where that means nothing."""
    name, *options = arguments.split()
    match options:
        case []:
            return ProfileChange(name)
        case ["--no-import"]:
            return ProfileChange(name, turns=0)
        case ["--import"]:
            return ProfileChange(name, turns=TURNS)
        case ["--import", number] if _is_count(number):
            return ProfileChange(name, turns=int(number))
        case ["--in-place"]:
            return ProfileChange(name, in_place=True)
        case ["--in-place", "--yes"]:
            return ProfileChange(name, in_place=True, sure=True)
        case _:
            return None


def ways_to_change(change: ProfileChange) -> ChoiceList:
    """What is left to choose. What stands for a row is what one would write behind `/profiles`."""
    name = visible(change.name, newlines=False)
    if change.in_place:
        return ChoiceList(
            purpose="profile",
            title=f"Change this session to the profile {name}? Instructions and tools change in the middle of it: the "
            "model may contradict what it said, and the provider reads all of it anew.",
            rows=(ChoiceRow(f"{change.name} --in-place --yes", "change this session", "it keeps its model"),),
            enter="Enter changes it",
            below=f"Safer: /profiles:{name} begins a new one   In words: /profiles:{name} --in-place --yes",
        )
    return ChoiceList(
        purpose="profile",
        title=f"A new session with the profile {name}; this one is paused",
        rows=(
            ChoiceRow(
                f"{change.name} --import {TURNS}",
                f"with the last {TURNS} turns",
                "as a summary in its first request",
            ),
            ChoiceRow(f"{change.name} --no-import", "empty", "nothing is taken along"),
        ),
        enter="Enter begins it",
        below=f"In words: /profiles:{name} --import {TURNS}, or --no-import",
    )


def why_not(name: str, entries: tuple[ProfileEntry, ...]) -> str:
    """What to say of a profile that cannot be had; empty where it can, or where a file is named."""
    shown = visible(name, newlines=False)
    entry = next((one for one in entries if one.name == name), None)
    if entry is None and "/" not in name and not name.endswith(".toml"):
        known = ", ".join(visible(one.name, newlines=False) for one in entries)
        return f'There is no profile "{shown}" (there are {known}).'
    if entry is not None and not entry.trusted:
        return f'The profile "{shown}" is of this project and not trusted yet: /trust ack'
    return ""


def list_rows(entries: tuple[ProfileEntry, ...]) -> Iterator[str]:
    """The profiles there are, the one in force with a mark."""
    names = [visible(entry.name, newlines=False) for entry in entries]
    width = max(map(len, names), default=0)
    for name, entry in zip(names, entries, strict=True):
        about = (
            visible(entry.about, newlines=False)
            if entry.trusted
            else "of this project, not trusted yet: /trust ack"
        )
        yield f"{'>' if entry.in_force else ' '} {name:<{width}}   {about}".rstrip()
    yield f"  {USAGE}"


def page_rows(profile: ProfileDescription) -> Iterator[str]:
    """The profile in force and what the session has by it and by all else."""
    whose = {
        "shipped": "comes with Bridle",
        "own": "yours",
        "project": "of this project",
        "path": "a file you named",
    }
    yield f"profile  {visible(profile.name, newlines=False)}   {whose[profile.scope]}"
    if profile.about:
        yield f"about    {visible(profile.about, newlines=False)}"
    for label, names in (
        ("tools", profile.tools),
        ("servers", profile.servers),
        ("skills", profile.skills),
        ("plugins", profile.plugins),
    ):
        shown = ", ".join(visible(name, newlines=False) for name in names)
        yield f"{label:<8} {shown or 'none'}"
    yield "Others: /profiles"


def begun_words(name: str, old: str, *, turns: int) -> str:
    """What is said in a new session of the one before."""
    along = f" It begins with a summary of the last {counted(turns, 'turn')}." if turns else ""
    return (
        f'A new session on the profile "{visible(name, newlines=False)}".{along} '
        f"The one before is paused: /resume {old} goes back to it."
    )


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_TURNS
