"""Aliases: short names of a person's own. They stand for a line, take no name that is there, and never go round."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.clients.interaction.commands.command_table import SlashContext
from bridle.clients.interaction.commands.slash_table import SLASH
from bridle.clients.interaction.effects import Effect, SayWords
from bridle.clients.interaction.engine_info import EngineInfo
from bridle.clients.interaction.view import SessionView
from bridle.commands.aliases import read_aliases
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.plugin.loading import RESERVED
from bridle.protocol.commands import AttachSession, RunSlash, SetMode
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import ContextAdded, Notice
from bridle.protocol.queries import ListSlash, SlashEntry
from bridle.protocol.slash_arguments import in_full
from bridle.providers.script import say
from tables import table

WRITTEN = """
t = "/user:tidy now"
tt = "/t twice"
undo = "/quit"
skills = "/help"
mode = "/mode yolo"
a = "/b"
b = "/alias:a x"
"no name" = "/help"
word = "help"
number = 3
"""


def standing(info: EngineInfo) -> SlashContext:
    return SlashContext(
        session="s", view=SessionView("c"), info=info, table=SLASH, is_file=lambda _path: False
    )


def carry_out(name: str, arguments: str, now: SlashContext) -> Effect:
    (effect,) = SLASH.run(name, arguments, now)
    return effect


@pytest.mark.requirement("G46.4")
async def test_an_alias_is_listed_with_what_it_stands_for_and_a_bad_one_is_refused_and_named_once(
    tmp_path: Path,
):
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "home/config/aliases.toml").write_text(WRITTEN)
    (tmp_path / "work/.bridle").mkdir(parents=True)
    for theirs in (".bridle/aliases.toml", "aliases.toml"):
        (tmp_path / "work" / theirs).write_text('evil = "/user:evil"\n')
    places = {"home": str(tmp_path / "home"), "folder": str(tmp_path / "work")}
    async with harness(scripted(say("ok")), **places) as session:
        listed = (await session.connection.ask(ListSlash(session=session.id))).commands
        found = {one.name: one for one in listed if one.stands_for}
        assert {name: one.stands_for for name, one in found.items()} == {
            "t": "/user:tidy now",
            "tt": "/user:tidy now twice",
        }
        assert found["t"].description == "short for /user:tidy now (aliases.toml)"
        assert found["t"].namespace == ""
        refused = [
            one.event.data["problem"]
            for one in await session.stored()
            if isinstance(one.event, Notice) and one.event.reason == "BadAlias"
        ]
        with pytest.raises(
            CommandRefused
        ):  # the engine obeys no alias: who may give a command is judged by its name
            await session.connection.send(RunSlash(session=session.id, name="t", arguments=""))
    taken = "is the name of a command or a namespace already: take another"
    no_command = 'stands for no command: write one in a line, like "/user:tidy now"'
    assert refused == [
        *(f'"{name}" {taken}' for name in ("undo", "skills", "mode")),
        '"no name" is no name for an alias (a small letter, then small letters, digits, - and _; 32 at most)',
        *(f'"{name}" {no_command}' for name in ("word", "number")),
        '"a" leads back to itself (/a → /b → /a)',
        '"b" leads back to itself (/b → /a → /b)',
    ]


@pytest.mark.requirement("G46.4")
def test_a_client_does_what_an_alias_stands_for_and_never_instead_of_a_command_of_its_own():
    entries = (
        SlashEntry(name="p", description="short for /mode plan", stands_for="/mode plan"),
        SlashEntry(name="t", description="short for /user:tidy now", stands_for="/user:tidy now"),
        SlashEntry(name="help", description="never", stands_for="/quit"),
    )
    now = standing(EngineInfo(prompts=entries))
    assert carry_out("p", "", now) == SetMode(session="s", mode="plan")
    for name in ("t", "alias:t"):
        said = carry_out(name, "and here", now)
        assert said == RunSlash(session="s", name="user:tidy", arguments="now and here")
    assert not any(isinstance(one, RunSlash) for one in SLASH.run("help", "", now))
    assert {"p", "t"} <= set(SLASH.names(now.info))


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.sampled_from(["/a", "/b x", "/c", "/help", "/d y", "/user:x z"])
    )
)
def test_whatever_is_written_what_counts_leads_to_a_command_in_one_step(written):
    data = "".join(f'{name} = "{line}"\n' for name, line in written.items()).encode()
    found = read_aliases(data, {"help"})
    assert len(found.lines) + len(found.problems) == len(written)
    for line in found.lines.values():
        name, arguments = in_full(line.partition(" ")[0][1:], "", found.lines)
        assert name not in found.lines
        assert f"/{name} {arguments}".split()[0] in ("/help", "/user:x") or name not in written


@given(st.binary())
def test_any_bytes_are_read_without_a_fault(data):
    found = read_aliases(data, ())
    assert all(line.startswith("/") for line in found.lines.values())


@pytest.mark.requirement("C20", "G45.2")
async def test_every_command_that_ships_has_a_long_name_and_nobody_is_judged_by_it(tmp_path: Path) -> None:
    async with harness(scripted(say("ok")), home=str(tmp_path / "home")) as session:
        connection = session.connection
        shipped = [one.name for one in (await connection.ask(ListSlash())).commands if ":" not in one.name]
        assert {"commit", "compact", "undo", "review"} <= {*shipped}
        for name in ("bridle:pin", "pin"):
            await connection.send(RunSlash(session=session.id, name=name, arguments="Stay calm."))
            await session.until(ContextAdded)
        agent = session.engine.connect(name="agent", identity="agent", answers=False)
        await agent.send(AttachSession(session=session.id))
        for name in ("commit", "git:commit", "bridle:commit", "bridle:undo", "run:undo", "bridle:mcp"):
            with pytest.raises(CommandRefused) as refused:
                await agent.send(RunSlash(session=session.id, name=name))
            assert refused.value.reason in ("NotAPerson", "UnknownSlash")
            assert refused.value.reason == "NotAPerson" or name == "bridle:mcp"
        for name in ("bridle:nothing", "git:log", "bridle:user:tidy", "bridle:", "git:"):
            with pytest.raises(CommandRefused) as refused:
                await connection.send(RunSlash(session=session.id, name=name))
            assert refused.value.reason == "UnknownSlash", name


@table("name", ["bridle", "git", "run"])
def test_no_alias_and_no_plugin_takes_a_namespace_of_a_long_name(name: str) -> None:
    assert name in RESERVED
    assert read_aliases(f'{name} = "/plan"\n'.encode(), RESERVED).lines == {}


@pytest.mark.requirement("C20", "G46.1")
def test_a_client_takes_a_long_name_for_the_short_one_and_completes_it():
    entries = (SlashEntry(name="halt", description="short", stands_for="/run:stop"),)
    now = standing(EngineInfo(prompts=entries))
    for name in ("plan", "bridle:plan"):
        assert carry_out(name, "", now) == SetMode(session="s", mode="plan")
    for name in ("stop", "run:stop", "bridle:stop", "halt"):
        assert carry_out(name, "", now) == SayWords("No turn is running.", "  ")
    assert carry_out("git:diff", "src", now) == RunSlash(session="s", name="git:diff", arguments="src")
    assert {"git:commit", "run:stop"} <= set(SLASH.completed_names(now.info))
