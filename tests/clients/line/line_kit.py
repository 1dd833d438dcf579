"""A person at a real pseudo-terminal, and a small terminal that shows what they would see.

The emulator knows exactly the codes the line client may send; any other fails the test that sent it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import unicodedata
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from bridle.base.clock import Clock
from bridle.clients.interaction.effects import ClientServices
from bridle.clients.interaction.render.start_info import StartInfo, StartLine
from bridle.clients.line.client import talk
from bridle.clients.line.terminal import ESCAPE_S, Look, Terminal
from bridle.conformance.fake_clock import FakeClock
from bridle.protocol import events as e
from bridle.protocol import queries as q
from bridle.protocol.commands import Accepted, AnyCommand, CreateSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.handshake import Handshake, handshake

DEADLINE_S = 20
GOLDEN = Path(__file__).parent / "golden"
SESSION = "sess_01JV0000000000000000000000"
COLOURLESS = Look(codes=True, moves=True)
DUMB = Look()
READER = Look(reader=True)

_CODE = re.compile(r"\x1b\[(\?)?([0-9;]*)([A-Za-z])")
_TITLE = re.compile(r"\x1b\][^\x07\x1b]*\x07")
_LINK = re.compile(r"\x1b\]8;;([!-~]*)\x1b\\")


class Glass:
    """What a terminal of some width shows, scrolled-off lines included."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0
        self.links: list[str] = []
        self._held = ""

    def write(self, text: str) -> None:
        text = self._held + text
        self._held = ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
                continue
            found = _CODE.match(text, at) or _TITLE.match(text, at) or _LINK.match(text, at)
            if found is None:
                assert len(text) - at < 200, f"not a code we may send: {text[at : at + 20]!r}"
                self._held = text[at:]
                return
            if found.re is _CODE:
                self._obey(found)
            elif found.re is _LINK and found[1]:
                self.links.append(found[1])
            at = found.end()

    def _obey(self, code: re.Match[str]) -> None:
        count = int(code[2]) if code[2].isdigit() else 1
        match code[1], code[3]:
            case None, "A":
                assert self.row >= count, "the cursor never leaves the live rows"
                self.row -= count
            case None, "C":
                self.column += count
            case None, "K" if not code[2]:
                del self.lines[self.row][self.column :]
            case None, "m":
                pass
            case "?", "h" | "l" if code[2] == "2004":
                pass
            case _:
                raise AssertionError(f"not a code we may send: {code[0]!r}")

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._down()
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character != "\a":
            width = _cells(character)
            if self.column + width > self.columns:
                self.column = 0
                self._down()
            line = self.lines[self.row]
            line.extend([" "] * (self.column + width - len(line)))
            if width:
                line[self.column : self.column + width] = [character, *[""] * (width - 1)]
            elif line:
                line[-1] += character
            self.column += width

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def resize(self, columns: int) -> None:
        """Another width: rows that are too long are broken anew, and the cursor stays with its letter."""
        lines: list[list[str]] = []
        for number, line in enumerate(self.lines):
            if number == self.row:
                row, column = len(lines) + self.column // columns, self.column % columns
            rows = [line[at : at + columns] for at in range(0, len(line), columns)] or [[]]
            if number == self.row:
                rows += [[] for _ in range(self.column // columns + 1 - len(rows))]
            lines += rows
        self.columns, self.lines, self.row, self.column = columns, lines, row, column

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip("\n") + "\n"


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


class Person:
    """Someone at the other side of a pseudo-terminal."""

    def __init__(self, columns: int, rows: int, clock: FakeClock | None) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (rows, columns))
        self.glass = Glass(columns)
        self.bytes = b""
        self.clock = clock
        self.scene: Scene | None = None
        self._changed = asyncio.Event()
        self._left_over = b""
        asyncio.get_running_loop().add_reader(self.master, self._read)

    def _read(self) -> None:
        data = os.read(self.master, 65536)
        self.bytes += data
        text = self._left_over + data
        cut = len(text)
        while cut and not _is_whole(text[:cut]):
            cut -= 1
        self._left_over = text[cut:]
        self.glass.write(text[:cut].decode())
        self._changed.set()

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    async def pastes(self, text: str) -> None:
        """Sends a marked paste, as fast as the terminal takes it."""
        data = f"\x1b[200~{text}\x1b[201~".encode()
        os.set_blocking(self.master, False)
        while data:
            with suppress(BlockingIOError):
                data = data[os.write(self.master, data[:1024]) :]
            await asyncio.sleep(0)
        os.set_blocking(self.master, True)

    async def passes(self, seconds: float) -> None:
        """So much later; the client has taken before what it was told, or a wait of its own would begin anew."""
        if self.scene is not None:
            await self.scene.heard()
        if self.clock is not None:
            await self.clock.advance(seconds)

    async def types(self, text: str, *, then: str | None = None) -> None:
        """Types, and waits until that is seen; after a moment in which a question could be read."""
        await self.passes(1.5)
        self.type(text)
        if then is not None:
            await self.sees(then)

    async def presses_esc(self) -> None:
        """Esc alone, until the client knows that nothing follows it: its timer runs before one that is set later."""
        self.type("\x1b")
        while struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"0000"))[0]:
            await asyncio.sleep(0)
        await asyncio.sleep(2 * ESCAPE_S)

    async def sees(self, *texts: str) -> None:
        """Waits until the screen shows these."""
        await self.waits(lambda: all(text in self.glass.text for text in texts), str(texts))

    async def shows(self, name: str, columns: int) -> None:
        """Waits until the screen is the golden one of this name; UPDATE_GOLDEN=1 writes what stands there."""
        path = _golden(name, columns)
        if os.environ.get("UPDATE_GOLDEN"):
            await asyncio.sleep(1)
            path.write_text(self.glass.text, encoding="utf-8")
        wanted = path.read_text(encoding="utf-8")
        with suppress(AssertionError):
            await self.waits(lambda: self.glass.text == wanted, path.name)
        check_golden(name, columns, self.glass.text)

    async def waits(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"never seen: {what}\n{self.glass.text}") from None

    def resizes(self, columns: int, rows: int = 40) -> None:
        """The window gets another size, as a terminal does it: what stands there is broken anew, then all are told."""
        self.glass.resize(columns)
        termios.tcsetwinsize(self.slave, (rows, columns))
        os.kill(os.getpid(), signal.SIGWINCH)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.master)
        os.close(self.master)
        os.close(self.slave)


def _is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class Scene:
    """A `Connection` whose events the test gives, one at a time. Every command is taken, unless one is refused."""

    client = "cli_me"

    def __init__(self, *past: e.AnyEvent) -> None:
        self.sent: list[AnyCommand] = []
        self.refuse: BridleError | None = None
        self.models: dict[str, q.ModelEntry] = {}
        self.providers: tuple[q.ProviderEntry, ...] = ()
        self.prompts: tuple[q.SlashEntry, ...] = ()
        self.grants: tuple[q.GrantEntry, ...] = ()
        self.agents: tuple[q.AgentEntry, ...] = ()
        self.changes = q.SessionChanges()
        self.told: dict[str, dict[str, Any]] = {}
        self.cwd = "/home/me/code/shop"
        self._events: asyncio.Queue[e.Envelope | BridleError | None] = asyncio.Queue()
        self._next = 1
        self.ts_ms = self._turn_ms = 0
        self.tell(*past)
        self.begin_here()

    def begin_here(self) -> None:
        """What was told until now is the past of whoever comes."""
        self._past = self._next - 1

    @property
    def hello(self) -> Handshake:
        return handshake()

    def tell(
        self,
        *events: e.AnyEvent,
        after_ms: int = 1000,
        originator: str = "cli_me",
        path: tuple[str, ...] = (),
        child: str | None = None,
    ) -> None:
        """`child` is the invocation that brings them, `path` the names of the agents down to it."""
        for event in events:
            live = isinstance(event, e.ToolCallProgress | e.Presence)
            self.ts_ms += after_ms
            if isinstance(event, e.TurnStarted) and child is None:
                self._turn_ms = self.ts_ms
            elif isinstance(event, e.TurnEnded) and child is None:
                took_ms = float(self.ts_ms - self._turn_ms)
                self.tell(e.TurnTiming(durations_ms={"turn.total": took_ms}), after_ms=0)
            envelope = e.Envelope(
                id=None if live else self._next,
                kind=type(event).__name__,
                session=SESSION,
                originator=originator,
                ts_ms=self.ts_ms,
                event=event,
                agent_path=path,
                invocation=child,
            )
            self._next += 0 if live else 1
            self._events.put_nowait(envelope)

    def end(self) -> None:
        self._events.put_nowait(None)

    def fail(self, failure: BridleError) -> None:
        """Nothing more comes, and why."""
        self._events.put_nowait(failure)

    async def send(self, command: AnyCommand) -> Accepted:
        self.sent.append(command)
        if self.refuse is not None and not isinstance(command, CreateSession):
            raise self.refuse
        return Accepted(session=SESSION, event=self._past if isinstance(command, CreateSession) else None)

    async def ask(self, query: q.Query[q.A]) -> q.A:
        match query:
            case q.DescribeSession(session=session):
                found: Any = q.SessionDetails(
                    session=q.SessionInfo(
                        id=session,
                        short_id=session.removeprefix("sess_")[:6],
                        cwd=self.cwd,
                        created_ms=0,
                        updated_ms=0,
                    )
                )
            case q.ListSessions():
                found = q.SessionList(sessions=())
            case q.ListProviders():
                found = q.ProviderList(providers=self.providers)
            case q.ListGrants():
                found = q.GrantList(grants=self.grants)
            case q.ListModels(usable=True):
                found = q.ModelList(models=tuple(self.models.values()))
            case q.ListChanges():
                found = self.changes
            case q.ListModels(names=names):
                found = q.ModelList(models=tuple(self.models.get(n, q.ModelEntry(model=n)) for n in names))
            case q.ListAgents():
                found = q.AgentList(agents=self.agents)
            case q.ListProfiles():
                found = q.ProfileList(profiles=())
            case q.CustomQuery(namespace=namespace, verb=verb):
                told = self.told.get(f"{namespace}.{verb}")
                if told is None:
                    raise CommandRefused("NotSupported", what=f"{namespace}.{verb}")
                found = q.CustomAnswer(payload=told)
            case _:
                found = q.SlashList(commands=self.prompts)
        return found

    async def events(self, session: str, *, since: int = 0) -> AsyncIterator[e.Envelope]:
        while (envelope := await self._events.get()) is not None:
            if isinstance(envelope, BridleError):
                raise envelope
            yield envelope
            self._events.task_done()
        self._events.task_done()

    async def heard(self) -> None:
        """Waits until the client has taken all it was told."""
        async with asyncio.timeout(DEADLINE_S):
            await self._events.join()

    async def close(self) -> None:
        return


START = StartInfo(
    version="0.1.0",
    branch="main",
    model_from="key from WORK_API_KEY",
    lines=(StartLine("rules", "none loaded", "AGENTS.md found, not trusted yet"),),
)


def services(clock: Clock, **more: Any) -> ClientServices:
    return ClientServices(clock=clock, home="/home/me", **more)


@asynccontextmanager
async def at_terminal(
    connection: Connection,
    create: CreateSession,
    *,
    columns: int = 100,
    rows: int = 40,
    look: Look = COLOURLESS,
    clock: Clock | None = None,
    first_prompt: str | None = None,
    start: StartInfo = START,
    **more: object,
) -> AsyncIterator[tuple[Person, asyncio.Task[int]]]:
    """A person and the client in front of them. Time stands still unless a clock is given; `more` are services."""
    clock = clock or FakeClock()
    person = Person(columns, rows, clock if isinstance(clock, FakeClock) else None)
    person.scene = connection if isinstance(connection, Scene) else None
    terminal = Terminal(input_fd=person.slave, output_fd=person.slave, look=look, stop=lambda: None)
    task = asyncio.create_task(
        talk(
            connection,
            create,
            terminal,
            services=services(clock, **more),
            start=start,
            first_prompt=first_prompt,
        )
    )
    try:
        yield person, task
    finally:
        if not task.done():
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        person.close()


def _golden(name: str, columns: int) -> Path:
    return GOLDEN / f"{name}.{columns}.txt"


def check_golden(name: str, columns: int, text: str) -> None:
    """Compares a whole text with the golden file of this name; UPDATE_GOLDEN=1 writes it."""
    path = _golden(name, columns)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; UPDATE_GOLDEN=1 rewrites it"


def commands(scene: Scene, kind: type) -> Sequence[AnyCommand]:
    return [command for command in scene.sent if isinstance(command, kind)]
