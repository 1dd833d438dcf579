"""Two sessions in one engine: what one's settings say never moves what the other does."""

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridle.app.engine import Engine
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.fake_models import CutStream
from bridle.conformance.harness import of_kind
from bridle.conformance.servers import ModelServer
from bridle.credentials.records import ApiKey
from bridle.engine.ports import ModelDone, ModelPart, ModelRequest, ModelText
from bridle.protocol.commands import (
    AttachSession,
    CreateSession,
    EndSession,
    SendInput,
    SessionOptions,
    SetModel,
)
from bridle.protocol.connection import Connection
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import AnyEvent, CostIncremented, TurnEnded
from bridle.protocol.messages import TextBlock, Usage
from bridle.providers.script import Spend, answer, say
from credentials.credential_kit import a_secret

SPENT = Spend(Usage(input_tokens=1000, output_tokens=100))


class Desk:
    """One engine, one client, and a folder for each session's settings."""

    def __init__(self, engine: Engine, root: Path) -> None:
        self.engine = engine
        self.root = root
        self.connection: Connection = engine.connect(name="test", answers=False)

    async def open(self, name: str, settings: str, model: str) -> str:
        """A session whose own settings file says this."""
        work, file = self.root / name, self.root / f"{name}.toml"
        work.mkdir()
        file.write_text(settings)
        created = await self.connection.send(
            CreateSession(
                cwd=str(work),
                env={"PATH": os.defpath, "HOME": str(self.root)},
                model=model,
                config=SessionOptions(config_file=str(file), sandbox="off"),
            )
        )
        return created.session

    async def ask(self, session: str) -> list[AnyEvent]:
        sent = await self.connection.send(SendInput(session=session, content=(TextBlock(text="go"),)))
        events: list[AnyEvent] = []
        async for envelope in self.connection.events(session, since=sent.event or 0):
            events.append(envelope.event)
            if isinstance(envelope.event, TurnEnded):
                break
        return events


@asynccontextmanager
async def desk(root: Path, model: CutStream | None = None, **env: str) -> AsyncGenerator[Desk]:
    env = {"BRIDLE_HOME": str(root / "bridle"), "HOME": str(root), **env}
    engine = Engine(where=folders(env), env=env, clock=SystemClock(), model=model)
    try:
        yield Desk(engine, root)
    finally:
        await engine.close()


def work(server: ModelServer, *more: str) -> str:
    return "\n".join((*more, "[providers.work]", f'base_url = "{server.url}"', ""))


def keys_sent(server: ModelServer) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.requests]


@pytest.mark.parametrize("helper", ["never", "always"])
async def test_opening_a_second_session_moves_neither_the_endpoint_nor_the_key_of_the_first(
    tmp_path: Path, helper: str
) -> None:
    secret = a_secret()
    async with (
        ModelServer.playing(say("One."), say("Two.")) as first,
        ModelServer.playing(say("Other.")) as second,
        desk(tmp_path, BRIDLE_API_KEY=secret) as here,
    ):
        use = f'credentials.helper = "{helper}"'
        one = await here.open("one", work(first, use), "work:m")
        assert of_kind(await here.ask(one), TurnEnded)[0].stop == "end_turn"
        other = await here.open("other", work(second, use), "work:m")
        assert of_kind(await here.ask(one), TurnEnded)[0].stop == "end_turn"
        assert (len(first.chats), len(second.chats)) == (2, 0)
        await here.ask(other)
        assert len(second.chats) == 1
    assert set(keys_sent(first)) == {f"Bearer {secret}"}


async def test_the_general_key_goes_to_the_provider_each_session_chose(tmp_path: Path) -> None:
    secret = a_secret()
    async with (
        ModelServer.playing(say("One."), say("Two.")) as first,
        ModelServer.playing(say("Other.")) as second,
        desk(tmp_path, BRIDLE_API_KEY=secret) as here,
    ):
        both = f'{work(first)}[providers.spare]\nbase_url = "{second.url}"\n'
        one = await here.open("one", both, "work:m")
        other = await here.open("other", both, "work:m")
        await here.connection.send(SetModel(session=other, model="spare:m"))
        await here.ask(one)
        assert keys_sent(first) == [f"Bearer {secret}"], "another session chose another provider"
        await here.connection.send(SetModel(session=one, model="spare:m"))
        await here.ask(one)
        assert keys_sent(second) == [f"Bearer {secret}"]


async def test_no_agent_says_whom_the_general_key_goes_to(tmp_path: Path) -> None:
    async with (
        ModelServer.playing(say("One."), say("Two.")) as first,
        ModelServer.playing(say("Other.")) as second,
        desk(tmp_path, BRIDLE_API_KEY=a_secret(), KEYED=a_secret()) as here,
    ):
        both = f'{work(first)}[providers.spare]\nbase_url = "{second.url}"\n'
        keyed = f'{both}[providers.keyed]\nbase_url = "{second.url}"\nkey_env = "KEYED"\n'
        one = await here.open("one", keyed, "work:m")
        config = tmp_path / "bridle" / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.toml").write_text(f'model = "work:m"\n{both}')
        agent = here.engine.connect(name="outer", identity="agent", answers=False)
        await agent.send(AttachSession(session=one))
        for command in (
            SetModel(session=one, model="spare:m"),
            CreateSession(cwd=str(tmp_path), resume=one, model="spare:m"),
            CreateSession(cwd=str(tmp_path / "one"), model="spare:m"),
        ):
            with pytest.raises(CommandRefused) as refused:
                await agent.send(command)
            assert refused.value.reason == "NotAPerson"
        await agent.send(SetModel(session=one, model="work:n"))
        await here.ask(one)
        await agent.send(SetModel(session=one, model="keyed:m"))
        await agent.send(CreateSession(cwd=str(tmp_path / "one"), model="work:n"))
        assert not keys_sent(second)


async def test_nobody_but_the_person_has_a_file_read_as_a_script(tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.write_text(a_secret())
    async with desk(tmp_path) as here:
        one = await here.open("one", "", "demo")
        bound = here.engine.access.tokens.new_claims(identity_class="human", sessions=(one,), name="Ana")
        agent = here.engine.connect(name="outer", identity="agent", answers=False)
        for stranger in (agent, here.engine.connect(name="guest", answers=True, claims=bound)):
            await stranger.send(AttachSession(session=one))
            for command in (
                SetModel(session=one, model=f"demo:{held}"),
                CreateSession(cwd=str(tmp_path / "one"), resume=one, model=f"demo:{held}"),
            ):
                with pytest.raises(CommandRefused) as refused:
                    await stranger.send(command)
                assert refused.value.reason == "NotAPerson"
            await stranger.send(SetModel(session=one, model="demo:hello"))


async def test_the_general_key_still_goes_to_the_chosen_provider_when_a_session_goes_on(
    tmp_path: Path,
) -> None:
    secret = a_secret()
    async with (
        ModelServer.playing(say("One."), say("Two.")) as server,
        desk(tmp_path, BRIDLE_API_KEY=secret) as here,
    ):
        one = await here.open("one", work(server), "work:m")
        await here.ask(one)
        await here.connection.send(EndSession(session=one))
        resumed = CreateSession(
            cwd=str(tmp_path),
            env={},
            resume=one,
            config=SessionOptions(config_file=str(tmp_path / "one.toml")),
        )
        await here.connection.send(resumed)
        await here.ask(one)
    assert keys_sent(server) == [f"Bearer {secret}"] * 2


async def test_a_provider_of_one_session_is_unknown_to_the_other(tmp_path: Path) -> None:
    async with ModelServer.playing(say("One.")) as server, desk(tmp_path) as here:
        one = await here.open("one", work(server), "work:m")
        other = await here.open("other", "", "demo")
        with pytest.raises(Exception, match="no provider") as refused:
            await here.connection.send(SetModel(session=other, model="work:m"))
        assert getattr(refused.value, "reason", "") == "UnknownProvider"
        await here.connection.send(SetModel(session=one, model="work:n"))


async def test_what_a_session_pays_is_counted_by_its_own_prices(tmp_path: Path) -> None:
    async with (
        ModelServer.playing(answer(say("One."), SPENT)) as server,
        desk(tmp_path, BRIDLE_API_KEY=a_secret()) as here,
    ):

        def priced(usd: float) -> str:
            return f'{work(server)}[models."work:m"]\nprice_in = {usd}\nprice_out = {usd}\n'

        one = await here.open("one", priced(1), "work:m")
        other = await here.open("other", priced(100), "work:m")
        costs = [of_kind(await here.ask(session), CostIncremented)[0].usd for session in (one, other)]
    assert costs == [pytest.approx(0.0011), pytest.approx(0.11)]


async def test_the_log_levels_of_one_session_are_not_those_of_the_other(tmp_path: Path) -> None:
    async with ModelServer.playing(say("One.")) as server, desk(tmp_path, BRIDLE_API_KEY="k" * 9) as here:
        loud = await here.open("loud", work(server, 'log.levels = "debug"'), "work:m")
        quiet = await here.open("quiet", work(server), "work:m")
        await here.ask(quiet)
        await here.ask(loud)
    noted = [
        json.loads(line)
        for path in (tmp_path / "bridle/state/log").iterdir()
        for line in path.read_text().splitlines()
    ]
    assert {line["session"] for line in noted if "session" in line} == {loud}


async def test_where_one_session_keeps_its_credentials_is_not_where_the_other_looks(tmp_path: Path) -> None:
    secret, env = a_secret(), {"BRIDLE_HOME": str(tmp_path / "bridle")}
    StoredKeys(where=folders(env), env={}, clock=SystemClock()).store.put(
        ApiKey(provider="work", secret=secret)
    )
    async with ModelServer.playing(say("One.")) as server, desk(tmp_path) as here:
        one = await here.open("one", work(server), "work:m")
        await here.open("other", work(server, 'credentials.store = "keyring"'), "work:m")
        assert of_kind(await here.ask(one), TurnEnded)[0].stop == "end_turn"
        assert keys_sent(server) == [f"Bearer {secret}"]


class Sometimes(CutStream):
    """Breaks inside the adapter for the model of that name."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        if request.model == "broken":
            raise ZeroDivisionError("inside the adapter")
        yield ModelText("Fine.")
        yield ModelDone("end_turn")


@pytest.mark.requirement("G41.5")
async def test_a_turn_that_crashes_leaves_the_other_session_alone(tmp_path: Path) -> None:
    async with desk(tmp_path, Sometimes()) as here:
        name = Sometimes().name
        one = await here.open("one", "", f"{name}:broken")
        other = await here.open("other", "", f"{name}:fine")
        assert of_kind(await here.ask(one), TurnEnded)[0].reason == "EngineFault"
        assert of_kind(await here.ask(other), TurnEnded)[0].stop == "end_turn"
