"""What a client that is no person, or that was never let in, does not get. Through `Connection` alone."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import ToolResult
from bridle.protocol.messages import TextBlock
from bridle.providers.script import call, say
from tables import table


def outer(session: HarnessSession) -> Any:
    return session.engine.connect(name="outer", identity="agent", answers=True)


async def refused(work: Any) -> str:
    with pytest.raises(CommandRefused) as refusal:
        await work
    return refusal.value.reason


async def first(events: Any) -> Any:
    return await asyncio.wait_for(anext(events), 5)


@pytest.mark.requirement("G20.8", "G16.5")
async def test_who_never_attached_reads_nothing_changes_nothing_and_ends_nothing() -> None:
    async with harness(scripted(say("Secret."), say("Still here."))) as session:
        await session.ask("hello")
        for client in (outer(session), session.engine.connect(name="other", answers=True)):
            for command in (
                c.SetModel(session=session.id, model="demo"),
                c.SendInput(session=session.id, content=(TextBlock(text="x"),)),
                c.CancelTurn(session=session.id),
                c.SetMode(session=session.id, mode="plan"),
                c.EndSession(session=session.id),
            ):
                assert await refused(client.send(command)) == "NotAttached"
            assert await refused(first(client.events(session.id))) == "NotAttached"
        assert (await session.ask("and now?"))[-1].stop == "end_turn"


async def test_who_has_left_is_told_nothing_more() -> None:
    async with harness(scripted(say("One."), say("Two."))) as session:
        other = session.engine.connect(name="other", answers=False)
        await other.send(c.AttachSession(session=session.id))
        events = other.events(session.id)
        kinds = {(await first(events)).kind for _ in range(2)}
        assert kinds == {"Presence", "SessionCreated"}
        await other.send(c.DetachSession(session=session.id))
        await session.ask("hello")
        with pytest.raises(StopAsyncIteration):
            await first(events)
        assert await refused(first(other.events(session.id))) == "NotAttached"


async def test_who_waits_for_events_while_leaving_waits_no_longer() -> None:
    async with harness(scripted(say("One."))) as session:
        events = session.connection.events(session.id)
        while (await first(events)).id != session.conversation.last_id:
            pass
        waiting = asyncio.ensure_future(first(events))
        await session.connection.close()
        with pytest.raises(StopAsyncIteration):
            await waiting


@table(
    ("mode", "config", "reason"),
    [
        ("yolo", {"yes": True, "sandbox": "off"}, "OnlyStricter"),
        ("auto", {}, "OnlyStricter"),
        (None, {"yes": True}, "NotAPerson"),
        (None, {"sandbox": "off"}, "OnlyStricter"),
        (None, {"max_steps": -1_000_000}, "OnlyStricter"),
        (None, {"max_cost": -1.0}, "OnlyStricter"),
        (None, {"sets": ["mode=yolo"]}, "NotAPerson"),
        (None, {"config_file": "mine.toml"}, "NotAPerson"),
        (None, {"lockfile": "approved.lock"}, "NotAPerson"),
        (None, {"allow": ["bash"]}, "NotAPerson"),
        (None, {"effort": "low"}, "OnlyStricter"),
    ],
)
async def test_an_agent_makes_no_session_in_which_more_is_allowed_than_the_person_allows(
    mode: Any, config: dict[str, Any], reason: str
) -> None:
    async with harness(scripted(say("Hi."))) as session:
        command = c.CreateSession(
            cwd=session.folder, model="demo:x", mode=mode, config=c.SessionOptions(**config)
        )
        assert await refused(outer(session).send(command)) == reason


@pytest.mark.parametrize(
    ("settings", "mode", "accepted"),
    [
        ('mode = "auto"', "auto", True),
        ('mode = "auto"', "default", True),
        ('mode = "plan"', "default", False),
        ('mode = "plan"', None, True),
    ],
)
async def test_the_persons_own_settings_are_the_limit(
    tmp_path: Path, settings: str, mode: Any, accepted: bool
) -> None:
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(settings + "\n")
    async with harness(scripted(say("Hi.")), home=str(home)) as session:
        command = c.CreateSession(cwd=session.folder, model="demo:x", mode=mode)
        if accepted:
            assert (await outer(session).send(command)).session != session.id
        else:
            assert await refused(outer(session).send(command)) == "OnlyStricter"


async def test_an_agent_takes_no_name_that_a_later_run_goes_by() -> None:
    async with harness(scripted(say("Hi."))) as session:
        command = c.CreateSession(cwd=session.folder, model="demo:x", aliases=("nightly", session.id))
        assert await refused(outer(session).send(command)) == "NotAPerson"


async def test_an_agent_sets_no_environment_and_gets_that_of_the_engine() -> None:
    model = scripted(call("bash", command="echo home is $HOME"), say("Hi."))
    async with harness(model) as session:
        agent, person = outer(session), os.path.join(os.path.dirname(session.home), "person")
        command = c.CreateSession(cwd=session.folder, env={"PATH": "/evil"}, model="demo:x")
        assert await refused(agent.send(command)) == "NotAPerson"
        made = await agent.send(c.CreateSession(cwd=session.folder, model="demo:x"))
        own = HarnessSession(session.engine, agent, made.session, folder=session.folder, home=session.home)
        (result,) = of_kind(await own.ask("go"), ToolResult)
        assert (result.outcome, result.content.strip()) == ("ok", f"home is {person}")


async def test_an_agent_goes_on_with_a_session_and_never_loosens_it() -> None:
    async with harness(scripted(say("Hi.")), mode="safe") as session:
        await session.connection.send(c.EndSession(session=session.id))
        again = c.CreateSession(cwd=session.folder, resume=session.id, mode="default")
        assert await refused(outer(session).send(again)) == "OnlyStricter"


async def test_an_agent_has_no_model_think_more_than_the_person_lets_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text('effort = "medium"\n')
    async with harness(scripted(say("Hi.")), home=str(home)) as session:
        agent = outer(session)
        await agent.send(c.AttachSession(session=session.id))
        assert await refused(agent.send(c.SetEffort(session=session.id, effort="high"))) == "OnlyStricter"
        await agent.send(c.SetEffort(session=session.id, effort="medium"))
        await session.connection.send(c.SetEffort(session=session.id, effort="max"))
        await agent.send(c.SetEffort(session=session.id, effort="high"))  # a person went further
        new = c.CreateSession(cwd=session.folder, model="demo:x", config=c.SessionOptions(effort="high"))
        assert await refused(agent.send(new)) == "OnlyStricter"
        await agent.send(
            c.CreateSession(cwd=session.folder, model="demo:x", config=c.SessionOptions(effort="medium"))
        )


async def test_an_agent_does_not_learn_which_providers_a_person_has_keys_of() -> None:
    async with harness(scripted(say("Hi."))) as session:
        agent = outer(session)
        await agent.send(c.AttachSession(session=session.id))
        for session_id in (session.id, None):
            assert await refused(agent.ask(q.ListModels(session=session_id, usable=True))) == "NotAPerson"
        (known,) = (await agent.ask(q.ListModels(session=session.id, names=("demo:x",)))).models
        assert known.model == "demo:x"
