"""What a client of a person needs before, around and after a session, as bytes through a connection and no other."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.cli.accounts.first_run import choose_model
from bridle.clients.interaction.composer.picker import Deed
from bridle.clients.interaction.session.opening import change_session, list_stored_sessions
from bridle.clients.print import Printer
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.servers import ModelServer
from bridle.protocol import commands as c
from bridle.protocol import queries as q
from bridle.protocol.codec import decode_command, decode_envelope, encode_command, encode_envelope
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.events import Envelope, Notice, PermissionRequested, SessionEnded, TurnEnded
from bridle.protocol.handshake import Handshake
from bridle.protocol.messages import TextBlock
from bridle.providers.script import call, say

_QUERIES = msgspec.json.Decoder(q.AnyQuery)
_ANSWERS = msgspec.json.Decoder(q.AnyQueryAnswer)


class Wire:
    """A connection of which only bytes come through."""

    def __init__(self, real: Connection) -> None:
        self._real = real

    @property
    def client(self) -> str:
        return self._real.client

    @property
    def hello(self) -> Handshake:
        return self._real.hello

    async def send(self, command: c.AnyCommand) -> c.Accepted:
        accepted = await self._real.send(decode_command(encode_command(command)))
        return msgspec.json.decode(msgspec.json.encode(accepted), type=c.Accepted)

    async def ask(self, query: q.Query[q.A]) -> q.A:
        asked = cast("q.Query[q.A]", _QUERIES.decode(msgspec.json.encode(query)))
        return cast("q.A", _ANSWERS.decode(msgspec.json.encode(await self._real.ask(asked))))

    async def events(self, session: str, *, since: int = 0) -> AsyncIterator[Envelope]:
        async for envelope in self._real.events(session, since=since):
            yield decode_envelope(encode_envelope(envelope))

    async def close(self) -> None:
        await self._real.close()


class Desk:
    """An engine, somebody's files, and their client on a wire."""

    def __init__(self, tmp_path: Path) -> None:
        self.work = tmp_path / "work"
        self.config = tmp_path / "home" / "config" / "config.toml"
        for folder in (self.work, tmp_path / "person"):
            folder.mkdir()
        env = {
            "BRIDLE_HOME": str(tmp_path / "home"),
            "HOME": str(tmp_path / "person"),
            "PATH": "/usr/bin:/bin",
        }
        self.where = folders(env)
        self.config = Path(self.where.config) / "config.toml"
        model = scripted(
            call("bash", command="touch one.txt"),
            say("Done."),
            call("bash", command="touch two.txt"),
            say("Again."),
        )
        self.engine = Engine(where=self.where, env=env, clock=SystemClock(), model=model)
        self.client = Wire(self.engine.connect(name="terminal", answers=True))
        self.create = c.CreateSession(cwd=str(self.work), model="demo:scripted")

    async def session(self, **more: Any) -> str:
        return (await self.client.send(msgspec.structs.replace(self.create, **more))).session

    async def says(self, session: str, text: str) -> int:
        sent = await self.client.send(c.SendInput(session=session, content=(TextBlock(text=text),)))
        assert sent.event is not None
        return sent.event

    async def until(self, session: str, kind: type[Any], since: int = 0) -> Envelope:
        async for envelope in self.client.events(session, since=since):
            if isinstance(envelope.event, kind):
                return envelope
        raise AssertionError(f"no {kind.__name__}")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    try:
        yield desk
    finally:
        await desk.engine.close()


@pytest.mark.requirement("G16.12")
async def test_what_a_session_would_be_is_known_before_there_is_one(desk: Desk) -> None:
    (desk.work / ".git").mkdir()
    (desk.work / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    plain = c.CreateSession(cwd=str(desk.work))
    assert await desk.client.ask(q.PreviewSession(create=plain)) == q.SessionPreview(
        cwd=str(desk.work), branch="topic"
    )
    desk.config.parent.mkdir(parents=True)
    desk.config.write_text('model = "demo:hello"\n')
    chosen = await desk.client.ask(q.PreviewSession(create=plain))
    assert (chosen.model, chosen.model_from) == ("demo:hello", "settings")
    named = await desk.client.ask(q.PreviewSession(create=desk.create))
    assert (named.model, named.model_from) == ("demo:scripted", "command")
    wide = await desk.client.ask(q.PreviewSession(create=c.CreateSession(cwd="/")))
    assert wide.wide
    assert not list(desk.work.rglob("*.db")), "nothing is opened by looking"


async def test_the_session_to_go_on_with_is_found_by_folder_and_by_name(desk: Desk) -> None:
    with pytest.raises(CommandRefused) as nobody:
        await desk.client.ask(q.FindSession(cwd=str(desk.work)))
    assert nobody.value.reason == "NoSessionHere"
    session = await desk.session(aliases=("nightly",))
    assert (await desk.client.ask(q.FindSession(cwd=str(desk.work)))).session.id == session
    assert (await desk.client.ask(q.FindSession(cwd="/", alias="nightly"))).session.id == session
    with pytest.raises(CommandRefused) as unknown:
        await desk.client.ask(q.FindSession(cwd="/", alias=session[:12]))
    assert unknown.value.reason == "UnknownSession", "a name is a whole one"


@pytest.mark.requirement("G45.17")
async def test_a_remembered_yes_becomes_a_rule_and_all_hear_where_it_stands(desk: Desk) -> None:
    session = await desk.session()
    sent = await desk.says(session, "go")
    asked = await desk.until(session, PermissionRequested, sent)
    assert isinstance(asked.event, PermissionRequested)
    answer = c.AnswerPermission(session=session, call_id=asked.event.call_id, answer="pattern")
    await desk.client.send(answer)
    await desk.until(session, TurnEnded, sent)
    (grant,) = (await desk.client.ask(q.ListGrants(session=session))).grants
    done = await desk.client.send(c.PromoteGrant(session=session, grant_id=grant.grant_id))
    told = (await desk.until(session, Notice, (done.event or 0) - 1)).event
    assert isinstance(told, Notice)
    assert (told.reason, told.data["path"]) == ("GrantPromoted", str(desk.config))
    assert 'program = "touch"' in desk.config.read_text()
    with pytest.raises(CommandRefused) as unknown:
        await desk.client.send(c.PromoteGrant(session=session, grant_id="grant_none"))
    assert unknown.value.reason == "UnknownGrant"


@pytest.mark.requirement("C28")
async def test_a_first_model_is_found_on_this_machine_chosen_and_kept(desk: Desk) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        create = c.CreateSession(
            cwd=str(desk.work),
            config=c.SessionOptions(
                sets=(
                    f'providers.here.base_url="{server.url}"',
                    'providers.here.key_env="HERE_KEY"',
                    "providers.here.local=false",
                )
            ),
        )
        key = "k" * 24
        connected = c.ConnectProvider(provider="here", key=key, create=create)
        assert key not in repr(connected)
        await desk.client.send(connected)
        said: list[str] = []
        typed = iter(("1", "1"))
        found = await desk.client.ask(q.ListProviders(which="running", create=create))
        model = await choose_model(desk.client, create, found, lambda _prompt: next(typed), said.append)
    assert model is not None
    assert model.model.startswith("here:")
    assert f'model = "{model.model}"' in desk.config.read_text()
    assert not any(key in line for line in said)
    stored = [path for path in Path(desk.where.config).parent.rglob("*") if path.is_file()]
    assert not [path for path in stored if key.encode() in path.read_bytes()], "keys are stored encrypted"


async def test_a_key_that_is_refused_is_not_stored(desk: Desk) -> None:
    for key, provider in (("k y", "openai"), ("k" * 20, "ollama"), ("k" * 20, "nobody")):
        with pytest.raises(BridleError) as refusal:
            await desk.client.send(c.ConnectProvider(provider=provider, key=key))
        assert key not in str(refusal.value)
    assert not (await desk.client.ask(q.ListProviders())).providers


async def test_a_run_is_told_what_its_calls_changed_and_what_stands_for_its_log(desk: Desk) -> None:
    out = io.StringIO()
    printer = Printer(form="json", out=out, write_line=lambda _line: None)
    create = msgspec.structs.replace(desk.create, config=c.SessionOptions(yes=True))
    await printer.run(desk.client, create, (TextBlock(text="go"),))
    assert printer.finish() == 0
    result = msgspec.json.decode(out.getvalue())
    assert result["changed_files"] == ["one.txt"]
    session = printer.session or ""
    assert result["log_digest"] == await desk.engine.sessions.digest(session)
    *_, last = [envelope async for envelope in desk.engine.sessions.events(session)]
    assert last.event == SessionEnded(cause="binary-shutdown")


async def test_the_list_of_sessions_is_put_in_order_from_a_client(desk: Desk) -> None:
    session = await desk.session()
    await desk.says(session, "the first words")
    await desk.client.send(c.EndSession(session=session))
    place: dict[str, Any] = {"here": str(desk.work.resolve()), "home": "/nowhere", "now_ms": 0}
    (one,) = await list_stored_sessions(desk.client, **place)
    assert (one.id, one.here, one.pinned) == (session, True, False)
    await change_session(desk.client, Deed("pin", session))
    await change_session(desk.client, Deed("rename", session, "kept"))
    (one,) = await list_stored_sessions(desk.client, **place)
    assert (one.title, one.pinned) == ("kept", True)
    await change_session(desk.client, Deed("pin", session))
    await change_session(desk.client, Deed("delete", session))
    assert await list_stored_sessions(desk.client, **place) == ()
