"""Slash commands for the settings of a session: model, effort, mode, permissions, profile, trust."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, get_args

import msgspec

from bridle.base.text.phrases import counted, window_words
from bridle.base.text.terminal_text import visible, visible_line
from bridle.clients.interaction.commands.command_table import (
    SlashCommand,
    SlashContext,
    busy_words,
    do,
    is_number,
    say,
)
from bridle.clients.interaction.composer.picker import ChoiceList, ChoiceRow
from bridle.clients.interaction.effects import (
    Do,
    Effect,
    Fetch,
    LendTerminal,
    PickRow,
    SayWords,
    SessionHost,
)
from bridle.clients.interaction.render.call_text import grant_words
from bridle.clients.interaction.render.start_info import MODE_WORDS
from bridle.protocol.commands import PromoteGrant, RevokeGrant, RunSlash, SetEffort, SetMode, SetModel
from bridle.protocol.events import GrantAdded, Mode
from bridle.protocol.messages import Effort
from bridle.protocol.queries import (
    DescribeProfile,
    GrantEntry,
    ListGrants,
    ListModels,
    ListProfiles,
    ModelEntry,
    ProfileDescription,
    ProfileEntry,
)
from bridle.protocol.slash_arguments import SlashArgument

EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
CYCLE: Final[tuple[Mode, ...]] = ("default", "auto", "plan")
"""The modes of Shift-Tab; it never leads into `yolo`."""
_PROVIDER_CHARACTERS: Final = 30
_WAITING: Final = PickRow(ready=False)

# Models


def _model(now: SlashContext, model: str) -> Sequence[Effect]:
    if model:
        return (SetModel(session=now.session, model=model),)
    return (Fetch(fetch_models, _WAITING, PickRow()),)


async def fetch_models(host: SessionHost) -> PickRow:
    """Fetch every model that can be asked now, those of this machine first."""
    found = (await host.connection.ask(ListModels(session=host.session, usable=True))).models
    if found:
        return PickRow(model_list(found, host.view.model))
    model = visible(host.view.model)
    host.perform(SayWords(f"{model} is the only model that is known here. Connect one: /login"))
    return PickRow()


def model_list(models: Iterable[ModelEntry], current: str) -> ChoiceList:
    """Return the list: the model in use, then those of this machine, then the others as they were given."""
    entries = sorted(models, key=lambda entry: (entry.model != current, not entry.local))
    rows = tuple(ChoiceRow(entry.model, entry.model, _about_model(entry, current)) for entry in entries)
    return ChoiceList(
        purpose="model",
        title="Models you can use now",
        rows=rows,
        enter="Enter takes it",
        below="Others: /model provider:model   Connect a provider: /login",
    )


def _about_model(entry: ModelEntry, current: str) -> str:
    window = entry.context_tokens
    facts = (
        "in use" if entry.model == current else "",
        "local" if entry.local else _price(entry),
        f"{window_words(window)} context" if window else "",
        "no tools" if entry.tools is False else "",
        "images" if entry.images else "",
    )
    return " · ".join(filter(None, facts))


def _price(entry: ModelEntry) -> str:
    if entry.price_in is None or entry.price_out is None:
        return "price unknown"
    return f"${entry.price_in:.4g} in, ${entry.price_out:.4g} out per million"


def _effort(now: SlashContext, name: str) -> Sequence[Effect]:
    for effort in EFFORTS:
        if name == effort:
            return (SetEffort(session=now.session, effort=effort),)
    if name:
        return say(f'"{visible_line(name)}" is not an effort ({", ".join(EFFORTS)}).')
    current = now.view.effort or "what the model does by itself"
    return say(f"effort   {current}    Change it: /effort NAME ({' '.join(EFFORTS)})")


# Modes and permissions


def next_mode(mode: Mode) -> Mode:
    """Return the mode after this one; a mode outside the cycle leads back to its beginning."""
    return CYCLE[(CYCLE.index(mode) + 1) % len(CYCLE)] if mode in CYCLE else CYCLE[0]


def _mode(now: SlashContext, name: str) -> Sequence[Effect]:
    for mode in MODES:
        if name == mode:
            return (SetMode(session=now.session, mode=mode),)
    if name:
        return say(f'"{visible_line(name)}" is not a mode ({", ".join(MODES)}).')
    rows = [f"{'>' if mode == now.view.mode else ' '} {mode:<8} {MODE_WORDS[mode]}" for mode in MODES]
    return say(*rows, "Change it: /mode NAME, or Shift-Tab for default, auto, plan", indent=" " * 11)


def _plan(now: SlashContext, task: str) -> Sequence[Effect]:
    if task:
        return (RunSlash(session=now.session, name="plan", arguments=task),)
    return (SetMode(session=now.session, mode="plan"),)


def _permissions(now: SlashContext, arguments: str) -> Sequence[Effect]:
    grants = list(now.view.grants.values())
    verb, _, number = arguments.partition(" ")
    if verb in ("revoke", "promote"):
        at = int(number) if number.strip().isdecimal() else 0
        if not 1 <= at <= len(grants):
            return say("Which one? /permissions lists them with their numbers.")
        kind = RevokeGrant if verb == "revoke" else PromoteGrant
        return (kind(session=now.session, grant_id=grants[at - 1].grant_id),)
    if verb:
        return say("What about them? /permissions, /permissions revoke NUMBER, promote NUMBER")
    return (Fetch(fetch_grants, _WAITING, PickRow()),)


async def fetch_grants(host: SessionHost) -> PickRow:
    """Fetch what is allowed without asking, to revoke it."""
    view = host.view
    found = (await host.connection.ask(ListGrants(session=host.session))).grants
    known = {entry.grant_id: entry for entry in found}
    numbered = {grant_id: number for number, grant_id in enumerate(view.grants, 1)}
    rows = [
        ChoiceRow(
            one,
            f"{numbered[one]:<2} {grant_words(view.grants[one])}"
            if one in numbered
            else f"   {_entry_words(known[one])}",
        )
        for one in sorted(known, key=lambda one: numbered.get(one, len(numbered) + 1))
    ]
    if not rows:
        nothing = f"Nothing is allowed beyond mode {view.mode} in this session."
        host.perform(SayWords(f"{nothing} Rules of your settings: bridle permissions"))
        return PickRow()
    return PickRow(
        ChoiceList(
            purpose="grant",
            title=f"Allowed without asking, beside mode {view.mode}",
            rows=tuple(rows),
            enter="Enter revokes",
            below="A rule for good: /permissions promote NUMBER   Rules of your settings: bridle permissions",
        )
    )


def _entry_words(entry: GrantEntry) -> str:
    """A remembered yes of an earlier session, in the words of one that was given here."""
    life = "session" if entry.expires_ms is None else "saved"
    return grant_words(
        GrantAdded(
            grant_id=entry.grant_id, tool=entry.tool, pattern=entry.pattern, life=life, match=entry.match
        )
    )


# Profiles

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
        case ["--import", number] if is_number(number) and 1 <= int(number) <= MOST_TURNS:
            return ProfileChange(name, turns=int(number))
        case ["--in-place"]:
            return ProfileChange(name, in_place=True)
        case ["--in-place", "--yes"]:
            return ProfileChange(name, in_place=True, sure=True)
        case _:
            return None


def ways_to_change(change: ProfileChange) -> ChoiceList:
    """What is left to choose. What stands for a row is what one would write behind `/profiles`."""
    name = visible_line(change.name)
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


async def show_profile(host: SessionHost, _arguments: str) -> None:
    profile = await host.connection.ask(DescribeProfile(session=host.session))
    for line in page_rows(profile):
        host.perform(SayWords(line, " " * 9))


def _profiles(now: SlashContext, arguments: str) -> Sequence[Effect]:
    """List the profiles, or change to one; what is missing of the change is chosen from a list."""
    if not arguments:
        return (Do(show_profiles),)
    change = parse_change(arguments)
    if change is None:
        return say(f"That means nothing here: {USAGE}")
    if now.view.running:
        return say(busy_words("/profiles", now.view))
    if not change.in_place and not now.view.turns:  # there is nothing to import
        return (Do(change_profile, f"{change.name} --no-import"),)
    if change.is_complete:
        return (Do(change_profile, arguments),)

    async def fetch_ways(host: SessionHost) -> PickRow:
        entries = (await host.connection.ask(ListProfiles(session=host.session))).entries
        if words := why_not(change.name, entries):
            host.perform(SayWords(words))
            return PickRow()
        return PickRow(ways_to_change(change))

    return (Fetch(fetch_ways, _WAITING, PickRow()),)


async def show_profiles(host: SessionHost, _arguments: str) -> None:
    for line in list_rows((await host.connection.ask(ListProfiles(session=host.session))).entries):
        host.perform(SayWords(line, " " * 4))


async def change_profile(host: SessionHost, arguments: str) -> None:
    change = parse_change(arguments)
    if change is not None and change.in_place:
        await host.change_profile(change.name)
    elif change is not None:
        await host.start_profile(change.name, change.turns or 0)


def why_not(name: str, entries: tuple[ProfileEntry, ...]) -> str:
    """What to say of a profile that cannot be had; empty where it can, or where a file is named."""
    shown = visible_line(name)
    entry = next((one for one in entries if one.name == name), None)
    if entry is None and "/" not in name and not name.endswith(".toml"):
        known = ", ".join(visible_line(one.name) for one in entries)
        return f'There is no profile "{shown}" (there are {known}).'
    if entry is not None and not entry.trusted:
        return f'The profile "{shown}" is of this project and not trusted yet: /trust ack'
    return ""


def list_rows(entries: tuple[ProfileEntry, ...]) -> Iterator[str]:
    """The profiles there are, the one in force with a mark."""
    names = [visible_line(entry.name) for entry in entries]
    width = max(map(len, names), default=0)
    for name, entry in zip(names, entries, strict=True):
        about = visible_line(entry.about) if entry.trusted else "of this project, not trusted yet: /trust ack"
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
    yield f"profile  {visible_line(profile.name)}   {whose[profile.scope]}"
    if profile.about:
        yield f"about    {visible_line(profile.about)}"
    for label, names in (
        ("tools", profile.tools),
        ("servers", profile.servers),
        ("skills", profile.skills),
        ("plugins", profile.plugins),
    ):
        shown = ", ".join(visible_line(name) for name in names)
        yield f"{label:<8} {shown or 'none'}"
    yield "Others: /profiles"


def begun_words(name: str, old: str, *, turns: int) -> str:
    """What is said in a new session of the one before."""
    along = f" It begins with a summary of the last {counted(turns, 'turn')}." if turns else ""
    return (
        f'A new session on the profile "{visible_line(name)}".{along} '
        f"The one before is paused: /resume {old} goes back to it."
    )


# Verbs of the program, at this terminal


def _login(_now: SlashContext, provider: str) -> Sequence[Effect]:
    """Have a key typed unseen when it is asked for: text behind the command could be read by others."""
    if len(provider) > _PROVIDER_CHARACTERS:
        return say("That is no provider. Which one? /login PROVIDER   Its key is asked for, unseen.")
    return (LendTerminal(("login", *provider.split(None, 1))),)


def _trust(_now: SlashContext, arguments: str) -> Sequence[Effect]:
    verb, _, path = arguments.partition(" ")
    if verb not in ("", "list", "ack", "diff"):
        return say("What about it? /trust list, ack [FILE], diff FILE   Taking it back: bridle trust revoke")
    after = "What is trusted now counts for sessions that begin from here on." if verb == "ack" else ""
    return (LendTerminal(("trust", verb or "list", *((path.strip(),) if path.strip() else ())), after),)


def _hooks(_now: SlashContext, _arguments: str) -> Sequence[Effect]:
    return (LendTerminal(("hooks", "list")),)


SETTING_COMMANDS: Final = (
    SlashCommand(
        "model",
        "pick a model from a list, or name it: /model provider:model",
        _model,
        (SlashArgument(name="provider:model", about="the model; else a list to pick from"),),
    ),
    SlashCommand(
        "effort",
        f"how much the model thinks: {' '.join(EFFORTS)}",
        _effort,
        (SlashArgument(name="NAME", about="how much the model thinks", choices=EFFORTS),),
    ),
    SlashCommand(
        "mode",
        f"what each mode does, or another one: {' '.join(MODES)}",
        _mode,
        (SlashArgument(name="NAME", about="the mode", choices=MODES),),
    ),
    SlashCommand(
        "plan",
        "reading only, until another mode is chosen; with words, a plan by an agent",
        _plan,
        (SlashArgument(name="words", about="what to plan; without any, plan mode"),),
    ),
    SlashCommand(
        "permissions",
        "what is allowed without asking, to revoke it; /permissions promote NUMBER",
        _permissions,
        (
            SlashArgument(name="verb", choices=("revoke", "promote")),
            SlashArgument(name="NUMBER", about="the one in the list"),
        ),
        with_verbs=True,
    ),
    SlashCommand("profile", "the profile in force, with its tools, servers and skills", do(show_profile)),
    SlashCommand(
        "profiles",
        "the profiles there are; /profiles:NAME begins a session with one, --in-place",
        _profiles,
        (
            SlashArgument(name="NAME", about="the profile to go on with; else the list"),
            SlashArgument(name="how", examples=("--import", "--no-import", "--in-place")),
        ),
        with_verbs=True,
    ),
    SlashCommand(
        "login",
        "connect a provider with a key or an account: /login [PROVIDER]",
        _login,
        (SlashArgument(name="PROVIDER", about="whose key or account; else a list to pick from"),),
    ),
    SlashCommand(
        "trust",
        "what of this project is trusted; /trust ack asks about what is not",
        _trust,
        (
            SlashArgument(name="verb", choices=("list", "ack", "diff")),
            SlashArgument(name="FILE", about="one file of the project"),
        ),
        with_verbs=True,
    ),
    SlashCommand("hooks", "the programs that hear of what happens here", _hooks),
)
