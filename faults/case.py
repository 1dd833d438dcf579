"""One case: a run of the engine that dies, the world it leaves, the run that comes back, and what must be true then.

Every part runs in a process forked for it, so nothing of one is in the memory of the next.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import traps

import bridle.sessions.archive.kept_fold as folding
from bridle.agents.definition import AgentDefinition
from bridle.app.engine import Engine
from bridle.app.user.stored_keys import session_store
from bridle.base.clock import Clock, SystemClock
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.engine.conversation import Conversation
from bridle.engine.ports import ModelDone, ModelPart, ModelRequest, ModelText
from bridle.engine.steps import encode
from bridle.protocol import events as e
from bridle.protocol.codec import encode_payload
from bridle.protocol.commands import AnswerQuestion, CreateSession, SendInput, SessionOptions
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError
from bridle.protocol.messages import TextBlock, ToolResultBlock, ToolUseBlock
from bridle.protocol.questions import OrphanAnswer
from bridle.providers.script import answer, call, say
from bridle.providers.scripted import ScriptedWire
from bridle.sessions.store import SessionStore

RUN_S = 40.0
"""No part of a case takes longer."""
GONE_S = 5.0
"""So long after the end of a run its last process is gone."""
PROMPTS = ("one", "two", "three")
_ALIVE = "alive"
SOURCE = str(Path(__file__).resolve().parent.parent / "src")
"""The tree these cases are of, whatever else is installed."""

NOBODY_KNOWS = OrphanAnswer(judgement="unknown")


@dataclass
class Result:
    """What a case came to. `broken` are sentences; none means that everything held."""

    fault: str
    seed: int
    killed: bool = False
    seen: int = 0
    lost: int = 0
    reused: int = 0
    repeated: int = 0
    orphans: int = 0
    ready_ms: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


class Place:
    """The folders of one case."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self.work = self.root / "work"
        self.home = self.root / "home"
        self.person = self.root / "person"
        for folder in (self.work / "did", self.home, self.person):
            folder.mkdir(parents=True)
        (self.work / "long.txt").write_text("".join(f"line {number}\n" for number in range(2_000)))
        self.witness = str(self.root / "witness")
        self.env = {"BRIDLE_HOME": str(self.home)}

    @property
    def data(self) -> str:
        return folders(self.env).data

    def hold_life(self) -> int:
        """A pipe that every command holds open while it lives."""
        path = self.work / _ALIVE
        if not path.exists():
            os.mkfifo(path)
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def did(self) -> dict[str, int]:
        """How often each command did what it does."""
        return {path.name: len(path.read_text().splitlines()) for path in (self.work / "did").iterdir()}

    def store(self) -> SessionStore:
        return session_store(self.env)


# The run that dies


def play(seed: int, *, lasting: bool) -> list[Any]:
    """The answers of the model: words, calls that change something and say so, calls that only read."""
    chance = random.Random(seed)
    answers: list[Any] = []
    number = 0
    for _ in PROMPTS:
        for _ in range(chance.randint(1, 2)):
            statements: list[Any] = [say("Words before the work. " * chance.randint(1, 4), chunk=12)]
            for _ in range(chance.randint(1, 3)):
                number += 1
                statements.append(_a_call(chance, number, lasting=lasting))
            answers.append(answer(*statements))
        answers.append(say("Done with that. " * chance.randint(1, 6), chunk=16))
    return answers


def _a_call(chance: random.Random, number: int, *, lasting: bool) -> Any:
    kind = chance.choice(("append", "append", "append", "write", "read"))
    if kind == "read":
        return call("read_file", path="long.txt")
    if kind == "write":
        return call("write_file", path=f"did/w{number}", content=f"{number}\n")
    waits = "sleep 60" if lasting else "true"
    return call("bash", command=f"exec 9>{_ALIVE}; echo {number} >> did/b{number}; echo begun; {waits}")


WRITERS = tuple(
    AgentDefinition(name=f"writer{number}", description="Works.", mode="subagent") for number in range(3)
)
"""One for each prompt: what one of them does is done by no other."""


def play_sent(seed: int) -> tuple[list[Any], dict[str, list[Any]]]:
    """The same work, done by agents: what the model answers to the main one, and what to each of them."""
    chance = random.Random(seed)
    main: list[Any] = []
    theirs: dict[str, list[Any]] = {}
    for index, writer in enumerate(WRITERS):
        main += [call("delegate_agent", agent=writer.name, task="Do it."), say("Done with that. ", chunk=16)]
        numbers = range(3 * index, 3 * index + chance.randint(2, 3))
        steps = [
            answer(say("Words before. ", chunk=8), _a_call(chance, number, lasting=False))
            for number in numbers
        ]
        changing = call("write_file", path=f"did/s{index}", content="x\n")
        theirs[writer.name] = [*steps, changing, say("Finding: it is done. " * 3, chunk=12)]
    return main, theirs


async def work(
    place: Place, seed: int, *, lasting: bool, clock: Clock | None = None, sends: bool = False
) -> None:
    """Three prompts, then a clean end. With `sends` agents do the work that are sent."""
    answers, theirs = play_sent(seed) if sends else (play(seed, lasting=lasting), {})
    model = scripted(*answers, agents=theirs, clock=Unhurried())
    engine = Engine(
        where=folders(place.env),
        env=place.env,
        clock=clock or SystemClock(),
        model=model,
        adopts_orphans=True,
        agents=WRITERS if sends else (),
    )
    watching: list[asyncio.Task[None]] = []
    try:
        connection = engine.connect(name="faults", answers=False)
        options = {"agent_mode": "multi"} if sends else {}
        created = await connection.send(new_session(place, seed, options, model=f"{model.name}:scripted"))
        watching.append(asyncio.create_task(_watch(connection, created.session, place)))
        for prompt in PROMPTS:
            sent = await connection.send(to_session(created.session, prompt))
            await until_turn_end(connection, created.session, sent.event or 0)
    finally:
        await engine.close()
        await asyncio.gather(*watching, return_exceptions=True)


async def _watch(connection: Connection, session: str, place: Place) -> None:
    """The client reads the stream and writes down what it has seen, before anything else can happen to it."""
    with open(place.witness, "ab", buffering=0) as file:  # noqa: ASYNC230  it must not wait for anybody
        async for envelope in connection.events(session):
            if envelope.id is not None:
                file.write(seen_line(envelope))


def seen_line(envelope: e.Envelope) -> bytes:
    return f"{envelope.id} {sha256(encode_payload(envelope.event)).hexdigest()}\n".encode()


def new_session(place: Place, seed: int, options: dict[str, Any], **more: Any) -> CreateSession:
    config = SessionOptions(yes=True, sandbox="off" if seed % 2 else "auto", **options)
    env = {"PATH": os.defpath, "HOME": str(place.person)}
    return CreateSession(cwd=str(place.work), env=env, mode="yolo", config=config, **more)


def to_session(session: str, words: str) -> SendInput:
    return SendInput(session=session, content=(TextBlock(text=words),), mode="queue")


async def until_turn_end(connection: Any, session: str, number: int) -> None:
    own = False
    async for envelope in connection.events(session, since=number):
        if envelope.invocation is not None:
            continue
        if isinstance(envelope.event, e.TurnStarted):
            own = envelope.event.input == number
        elif isinstance(envelope.event, e.TurnEnded) and own:
            return


class Unhurried(SystemClock):
    """Paces of the scripted model take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


# The run that comes back


class Back:
    """A model that only says that it is back, and keeps what it was sent."""

    name = "demo"
    wire = ScriptedWire()

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.asked.append(request.body)
        yield ModelText("I am back.")
        yield ModelDone("end_turn")


async def resume(place: Place, seed: int, *, court: bool = False) -> dict[str, Any]:
    """Opens the session again, which is when it is ready, and says one thing; with `court` a person judges first."""
    begun = time.perf_counter()
    model = Back()
    engine = Engine(
        where=folders(place.env), env=place.env, clock=SystemClock(), model=model, adopts_orphans=True
    )
    watching: list[asyncio.Task[None]] = []
    try:
        row = engine.store.newest(str(place.work.resolve()))
        connection = engine.connect(name="faults", answers=court)
        options = {"on_orphan": "ask" if court else "mark-unknown"}
        # A session that died before its first event has no model of its own yet.
        created = await connection.send(
            new_session(place, seed, options, resume=row.id, model=f"{model.name}:scripted")
        )
        ready_ms = (time.perf_counter() - begun) * 1000
        watching.append(asyncio.create_task(_watch(connection, created.session, place)))
        judging = asyncio.create_task(_judge(connection, created.session, created.event or 0))
        sent = await connection.send(to_session(created.session, "go on"))
        await until_turn_end(connection, created.session, sent.event or 0)
        judging.cancel()
        return {"ready_ms": ready_ms, "sent": [sha256(body).hexdigest() for body in model.asked]}
    finally:
        await engine.close()
        await asyncio.gather(*watching, return_exceptions=True)


async def _judge(connection: Any, session: str, since: int) -> None:
    async for envelope in connection.events(session, since=since):
        if isinstance(envelope.event, e.QuestionAsked):
            await connection.send(
                AnswerQuestion(session=session, question_id=envelope.event.question_id, answer=NOBODY_KNOWS)
            )


# Processes of a case


def forked(work: Callable[[], Any], *, within_s: float = RUN_S) -> tuple[int, dict[str, Any]]:
    """Runs `work` in a process of its own; how it ended, and what it returned or how it failed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _in_child(work, writing)
    os.close(writing)
    ended = _wait(pid, within_s)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    return ended, json.loads(said) if said else {}


def _in_child(work: Callable[[], Any], writing: int) -> None:
    said: dict[str, Any] = {}
    try:
        os.setsid()
        said = work() or {}
    except BridleError as failure:
        said = {"failed": failure.reason, "message": failure.message}
    except BaseException:  # noqa: BLE001  whatever it is, the case says so
        said = {"failed": "crash", "message": traceback.format_exc()[-4000:]}
    finally:
        os.write(writing, json.dumps(said).encode())  # little: whoever waits reads it when we are gone
        os._exit(0)


def _wait(pid: int, within_s: float) -> int:
    """The wait status of a child; one that takes too long is killed and fails the case."""
    descriptor = os.pidfd_open(pid)
    try:
        if not select.select([descriptor], [], [], within_s)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -1
    finally:
        os.close(descriptor)
    return os.waitpid(pid, 0)[1]


# What must be true


def killed_case(place: Place, result: Result, point: str, *, on_resume: bool) -> None:
    """Dies at a point, comes back, and is looked at."""
    chance = random.Random(f"{point} {result.seed}")
    times = 1 if point in traps.ONCE else chance.randint(1, 5)
    if point in ("input appended", "input committed", "turn started", "turn ended"):
        times = chance.randint(1, len(PROMPTS))
    sends = point in traps.IN_CHILD
    if sends:
        times = chance.randint(1, len(WRITERS))
    lasting = point == "mid-run"
    first = "outcome appended" if on_resume and point == "resume, results written" else "intent committed"
    life = place.hold_life()

    def dying() -> None:
        folding.FOLD_EVERY = 1
        if on_resume:
            traps.POINTS[first](traps.Trap(1), chance.random())
        else:
            (traps.POINTS | traps.IN_CHILD)[point](traps.Trap(times), chance.random())
        asyncio.run(work(place, result.seed, lasting=lasting, sends=sends))

    ended, said = forked(dying)
    result.killed = os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL
    if said.get("failed"):
        result.broken.append(f"the run failed by itself: {said['message']}")
    count_orphans(life, result, place)
    os.close(life)
    if on_resume:
        court = point.startswith("court")

        def dying_again() -> None:
            traps.ON_RESUME[point](traps.Trap(1), 0.0)
            asyncio.run(resume(place, result.seed, court=court))

        ended, said = forked(dying_again)
        result.killed = result.killed and os.WIFSIGNALED(ended)
        if said.get("failed"):
            result.broken.append(f"the second run failed by itself: {said['message']}")
    come_back(place, result)


def come_back(place: Place, result: Result) -> None:
    """Resumes twice and checks everything that must hold afterwards."""
    did = place.did()
    store = place.store()
    try:
        rows = store.list()
    finally:
        store.close()
    if not rows:
        if did or seen(place):
            result.broken.append("something was done or seen, and there is no session")
        return
    check_seen(place, result)
    for _ in range(2):
        ended, said = forked(lambda: asyncio.run(resume(place, result.seed)))
        if said.get("failed") or ended != 0:
            result.broken.append(f"resume failed: {said.get('message', ended)}")
            return
        result.ready_ms.append(said["ready_ms"])
    check_log(place, result, said["sent"])
    check_seen(place, result)
    if place.did() != did:
        result.repeated += 1
        result.broken.append(f"resuming did something: {did} became {place.did()}")


def count_orphans(life: int, result: Result, place: Place) -> None:
    """Every command of the run that died is gone in time."""
    if not any(name.startswith("b") for name in place.did()):
        return
    ready, _, _ = select.select([life], [], [], GONE_S)
    if not ready or os.read(life, 1) != b"":
        result.orphans += 1
        result.broken.append(f"a command still runs {GONE_S:g} s after the end")


def seen(place: Place) -> dict[int, set[str]]:
    """The events a client has seen, each with the digests of what it saw: one each, or an id was used twice."""
    found: dict[int, set[str]] = {}
    if os.path.exists(place.witness):
        for line in Path(place.witness).read_text().splitlines():
            number, digest = line.split()
            found.setdefault(int(number), set()).add(digest)
    return found


def check_seen(place: Place, result: Result) -> None:
    """Everything a client has seen is in the log, and no id has come back with other content."""
    store = place.store()
    try:
        (row,) = store.list()
        stored = {record.envelope.id: sha256(record.payload).hexdigest() for record in store.records(row.id)}
    finally:
        store.close()
    told = seen(place)
    lost = [number for number in told if number not in stored]
    reused = [
        number for number, digests in told.items() if digests - {stored.get(number)} and number in stored
    ]
    result.seen = result.seen or len(told)  # by the run that died, not by those that come back
    result.lost, result.reused = max(result.lost, len(lost)), max(result.reused, len(reused))
    if lost:
        result.broken.append(f"{len(lost)} events that a client saw are lost, the first is {lost[0]}")
    if reused:
        result.broken.append(f"{len(reused)} ids came back with other content, the first is {reused[0]}")


def check_log(place: Place, result: Result, sent: list[str]) -> None:
    """The log is whole, its calls are closed once each, nothing was done without an intent or twice."""
    store = place.store()
    try:
        (row,) = store.list()
        store.verify(row.id)
        envelopes = list(store.events(row.id))
    except BridleError as failure:
        result.broken.append(f"the log is not whole: {failure.message}")
        return
    finally:
        store.close()
    if [one.id for one in envelopes] != list(range(1, len(envelopes) + 1)):
        result.broken.append("ids have a gap")
    _check_calls(place, result, [one.event for one in envelopes])
    _check_children(result, envelopes)
    _check_request(result, envelopes, sent)


def _check_children(result: Result, envelopes: list[e.Envelope]) -> None:
    """Every agent that was sent has ended once, on record, and what it called was answered in its name."""
    begun = [one.event.invocation for one in envelopes if isinstance(one.event, e.ChildStarted)]
    ended = Counter(one.event.invocation for one in envelopes if isinstance(one.event, e.ChildEnded))
    if any(ended[child] != 1 for child in begun) or len(ended) != len(begun):
        result.broken.append(f"{len(begun)} agents were sent and {sum(ended.values())} have ended")
    asked = {
        one.event.call_id: one.invocation for one in envelopes if isinstance(one.event, e.ToolCallRequested)
    }
    told = [(one.event.call_id, one.invocation) for one in envelopes if isinstance(one.event, e.ToolResult)]
    if any(asked.get(call_id) != invocation for call_id, invocation in told):
        result.broken.append("a call of one agent was answered in the name of another")


def _check_calls(place: Place, result: Result, events: list[e.AnyEvent]) -> None:
    asked = [event.call_id for event in events if isinstance(event, e.ToolCallRequested)]
    intents = [event for event in events if isinstance(event, e.ToolCallStarted)]
    ends = Counter(event.call_id for event in events if isinstance(event, e.ToolResult))
    wrong = [call_id for call_id in asked if ends[call_id] != 1]
    if wrong:
        result.broken.append(f"{len(wrong)} calls do not have exactly one result")
    if any(count > 1 for count in Counter(intent.call_id for intent in intents).values()):
        result.repeated += 1
        result.broken.append("a call began twice")
    known = "\n".join(json.dumps(intent.input) for intent in intents if intent.mutating)
    for name, times in place.did().items():
        if times > 1:
            result.repeated += times - 1
            result.broken.append(f"{name} was done {times} times")
        if f"did/{name}" not in known:
            result.broken.append(f"{name} was done and no intent is in the log")


def _check_request(result: Result, envelopes: list[e.Envelope], sent: list[str]) -> None:
    """What the model was sent is the fold of the log, and a request a provider would take."""
    conversation = Conversation()
    folded: list[str] = []
    for envelope in envelopes:
        if envelope.kind == "StepStarted" and envelope.invocation is None:
            folded.append(sha256(encode(conversation, ScriptedWire())).hexdigest())
        conversation.apply(envelope)
    if sent and folded[-len(sent) :] != sent:
        result.broken.append("the request is not the fold of the log")
    messages = conversation.messages
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        asked = {block.wire_id for block in message.content if isinstance(block, ToolUseBlock)}
        replies = following.content if following is not None else ()
        if asked != {block.wire_id for block in replies if isinstance(block, ToolResultBlock)}:
            result.broken.append("a call in the request has no answer behind it")
    if conversation.turn_is_open or conversation.open_calls or conversation.children:
        result.broken.append("a turn, a call or an agent is still open")
    if messages and (messages[0].role, messages[-1].role) != ("user", "assistant"):
        result.broken.append("the request does not begin and end as it must")


def environment(place: Place) -> Mapping[str, str]:
    """What a real `bridle` of this case is started with."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place.person),
        "LANG": "C.UTF-8",
        "PYTHONPATH": SOURCE,
        **place.env,
    }
