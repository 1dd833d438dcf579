"""The story of `docs/handoff.md`: work begun at one terminal goes on at another, in a script and at a desk."""

import asyncio
from pathlib import Path

import pytest

from bridle.clients.blocking import BlockingConnection
from bridle.clients.engine_address import engine_address
from bridle.clients.interaction.session.key_router import GRACE_S
from bridle.clients.remote import RemoteConnection, connect_remote, engine_opener, place_opener
from bridle.control.token_files import read_token_file
from bridle.protocol.codec import encode_envelope
from bridle.protocol.commands import AnswerPermission, AttachSession, SendInput
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Envelope, PermissionDecided, PermissionRequested, TurnEnded
from bridle.protocol.messages import TextBlock
from cli_kit import Place
from cli_terminal import sitting
from serve_kit import ServedPlace, serving

CTRL_D = "\x04"
SCRIPT = """\
call bash {"command": "touch one"}
---
say One is made.
---
call bash {"command": "touch two"}
---
say Two is made.
"""


def approve_only(place: Place, session: str, does: str = "--approve") -> str:
    """The file with a token with which Ana answers what one session asks, and does nothing else."""
    file = str(place.home / "ana.token")
    with sitting(
        place, "token", "mint", "--session", session, does, "--name", "Ana", "--out", file
    ) as person:
        assert person.ends() == 0, person.text
    return file


def said(session: str, words: str) -> SendInput:
    return SendInput(session=session, content=(TextBlock(text=words),), mode="queue")


class Desk:
    """Somebody far away, with a token that only approves."""

    def __init__(self, connection: RemoteConnection, session: str) -> None:
        self.seen: list[Envelope] = []
        self._connection = connection
        self._session = session
        self._events = connection.events(session)

    async def until(self, kind: type, times: int = 1) -> Envelope:
        while sum(isinstance(one.event, kind) for one in self.seen) < times:
            self.seen.append(await anext(self._events))
        return [one for one in self.seen if isinstance(one.event, kind)][times - 1]

    async def approve(self) -> None:
        """Answers the second question, and can do nothing else."""
        with pytest.raises(CommandRefused) as refused:
            await self._connection.send(said(self._session, "something else"))
        assert refused.value.reason == "NotGranted"
        asked = (await self.until(PermissionRequested, times=2)).event
        assert isinstance(asked, PermissionRequested)
        await self._connection.send(
            AnswerPermission(session=self._session, call_id=asked.call_id, answer="once", digest=asked.digest)
        )


async def approve_from_a_desk(served: ServedPlace, session: str, token: str) -> list[Envelope]:
    """All of the session, as the desk had it when the second turn was over."""
    url = f"http://127.0.0.1:{served.port}"
    opener = engine_opener(engine_address(url), lambda: token)
    connection = await connect_remote(opener, address=url, name="desk", answers=True)
    try:
        await connection.send(AttachSession(session=session))
        desk = Desk(connection, session)
        await desk.approve()
        await desk.until(TurnEnded, times=2)
        return desk.seen
    finally:
        await connection.close()


def read_by_script(script: BlockingConnection, session: str) -> list[Envelope]:
    """All of the session up to the end of its second turn."""
    seen: list[Envelope] = []
    for envelope in script.events(session):
        seen.append(envelope)
        if sum(isinstance(one.event, TurnEnded) for one in seen) == 2:
            break
    return seen


def kept(envelopes: list[Envelope]) -> list[bytes]:
    return [encode_envelope(one) for one in envelopes if one.id is not None]


@pytest.mark.requirement("G41.2", "X8", "X20", "G26.1")
def test_work_is_handed_from_one_terminal_to_another_to_a_script_and_to_a_desk(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, "--listen", "127.0.0.1:0") as served:
        with sitting(place, "-m", place.script(SCRIPT), "make one") as first:
            first.sees("Run this command?", "touch one", "or type what to do instead")
            first.looks_for(2 * GRACE_S)
            first.types(CTRL_D)
            first.sees("A turn is running.  l leave it running")
            first.types("l")
            assert first.ends() == 0
        (come_back,) = [
            line.partition("Come back: bridle ")[2]
            for line in first.text.splitlines()
            if line.startswith('Left running: "make one".')
        ]

        with sitting(place, *come_back.split()) as second:
            second.sees("Run this command?", "touch one", "or type what to do instead")
            second.looks_for(2 * GRACE_S)  # what is typed at once is not meant for a question
            second.types("y\r")
            second.sees("allowed by you", "One is made.")

            session = served.ask("GET", "/v1/sessions").json["sessions"][0]["id"]
            token = read_token_file(approve_only(place, session))
            with BlockingConnection(place_opener(served.place), address=served.place.socket) as script:
                script.send(AttachSession(session=session))
                script.send(said(session, "make two"))
                at_the_desk = asyncio.run(approve_from_a_desk(served, session, token))
                in_the_script = read_by_script(script, session)
            second.sees("allowed by Ana", "Two is made.")
            url, file = f"http://127.0.0.1:{served.port}", str(place.home / "ana.token")
            with sitting(place, "attach", "--watch", url, "--token-file", file) as watcher:
                watcher.sees("allowed by the terminal", "allowed by you", "Two is made.")
                watcher.types("\x03")
                watcher.ends()
            second.types(CTRL_D)
            assert second.ends() == 0

        stored = kept(place.events(session))[: len(kept(at_the_desk))]
        assert kept(at_the_desk) == kept(in_the_script) == stored
        decided = [one.event for one in at_the_desk if isinstance(one.event, PermissionDecided)]
        assert [(one.verdict, one.answered_name) for one in decided] == [("allow", ""), ("allow", "Ana")]
    assert sorted(path.name for path in place.work.iterdir()) == ["it.script", "one", "two"]


@pytest.mark.parametrize("does", ["--watch", "--approve"])
def test_a_terminal_offers_what_its_token_lets_it_do(tmp_path: Path, does: str) -> None:
    place = Place(tmp_path)
    with serving(place, "--listen", "127.0.0.1:0") as served:
        body = {"cwd": str(place.work), "model": place.script("say Here.\n")}
        session = served.ask("POST", "/v1/sessions", body).json["session"]
        served.ask(
            "POST", f"/v1/sessions/{session}/input?wait=turn", {"content": [{"type": "text", "text": "go"}]}
        )
        url, file = f"http://127.0.0.1:{served.port}", approve_only(place, session, does)
        with sitting(place, "attach", url, "--token-file", file) as person:
            if does == "--watch":
                person.sees("watching sess_", "Here.")
                assert "Type what you want" not in person.text
                served.stop()
                person.sees("the session has ended")
            else:
                person.sees("Here.", "You can answer what is asked here, and nothing else is sent.")
                assert "Type what you want" not in person.text
                person.types("hello\r")
                person.sees("This token answers questions; it does not send words.")
                person.types("\x03")
                person.sees("Draft cleared")
                person.types(CTRL_D)
            assert person.ends() == 0
        if does == "--approve":
            assert "refused" not in place.bridle("token", "audit").out
            assert f"Come back: bridle attach {url} --token-file {file} --session 0" in " ".join(
                person.text.split()
            )
            wrong = place.bridle("attach", "--watch", url.replace("http", "https"), "--token-file", file)
            assert "(it does not answer with TLS: " in wrong.err


@pytest.mark.requirement("G22.14", "X20")
def test_a_job_waits_for_the_yes_of_somebody_at_a_desk(tmp_path: Path) -> None:
    place = Place(tmp_path)
    job = ("run", "--on-ask", "wait", "--stream-json", "-m", place.script(SCRIPT), "make one")
    with serving(place, "--listen", "127.0.0.1:0") as served, place.started(*job) as running:
        running.until("PermissionRequested")
        session = served.ask("GET", "/v1/sessions").json["sessions"][0]["id"]
        url, file = f"http://127.0.0.1:{served.port}", approve_only(place, session)
        with sitting(place, "attach", url, "--token-file", file) as desk:
            desk.sees("Run this command?", "touch one", "or type what to do instead")
            desk.looks_for(2 * GRACE_S)
            desk.types("y\r")
            desk.sees("allowed by you", "One is made.")
            ran = running.end()
    assert ran.code == 0, ran.err
    decided = [one.event for one in place.events(session) if isinstance(one.event, PermissionDecided)]
    assert [(one.verdict, one.answered_name) for one in decided] == [("allow", "Ana")]
