"""One run of a server: its process, started in its sandbox, and the connection to it.

When there is another run is decided by the supervisor in `shared_server`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec

from bridle.base.clock import Clock
from bridle.base.fs.files import private_folder
from bridle.base.net.http_dial import unreached
from bridle.base.process.duplex import DuplexProcess, InputPipe, OutputPipe, open_duplex
from bridle.base.secrets.redact import StreamRedactor
from bridle.base.text.terminal_text import visible
from bridle.base.text.tool_names import unique_server_parts
from bridle.base.threads import in_thread
from bridle.engine.ports import BeginCall, EndCall, Process, Spawn, SpawnPolicy
from bridle.engine.services import RunEnd, Supervisor
from bridle.mcp.input_requests import InputReply, InputRequest
from bridle.mcp.sampling_requests import SampleReply, SampleRequest
from bridle.mcp.server_definitions import ReferenceValues, ServerDefinition
from bridle.mcp.server_tokens import ServerTokens, login_command
from bridle.mcp.tool_lists import ToolList
from bridle.protocol.events import Notice

if TYPE_CHECKING:
    from bridle.mcp.server_connection import ServerConnection
    from bridle.mcp.server_tokens import TokenAuth
    from bridle.mcp.transports import WireCounts

MOST_BYTES: Final = 1 << 20
"""So much is in the file; what was in it before stays beside it, as `.1`."""
MOST_OF_A_RUN: Final = 8 << 20
"""A server that writes more than this is not written down any further until it is started again."""
_LAST_CHARACTERS: Final = 200
_LAST_BYTES: Final = 4096


def log_path(state_folder: str, server: str) -> str:
    """Where the words of a server of this name are kept."""
    return os.path.join(state_folder, "log", f"mcp-{unique_server_parts([server])[server]}.log")


class ServerLog:
    """Appends to the file of a server, without what it is to `hide`. What cannot be written is let go."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._secrets: tuple[str, ...] = ()
        self._redactor = StreamRedactor()
        self._left = MOST_OF_A_RUN
        self._last = bytearray()

    def hide(self, secrets: Iterable[str]) -> None:
        """From here on these appear in nothing that is written."""
        self._write(self._redactor.flush())
        self._secrets = tuple(dict.fromkeys(value for value in secrets if value))
        self._redactor = StreamRedactor(known=self._secrets)

    def masked(self, words: str) -> str:
        return StreamRedactor(known=self._secrets).whole(words)

    def begin(self, words: str) -> None:
        self._left = MOST_OF_A_RUN
        self._last.clear()
        self.note(words)

    def hear(self, chunk: bytes) -> None:
        """A piece of what it wrote on its standard error."""
        self._last += chunk
        del self._last[:-_LAST_BYTES]
        self._write(self._redactor.feed(chunk.decode(errors="replace")))

    def note(self, words: str) -> None:
        """A line of our own. Words of the server may be in it."""
        before = self._redactor.flush()
        end = "" if not before or before.endswith("\n") else "\n"
        self._write(f"{before}{end}[bridle] {self.masked(words)}\n")

    def last_line(self) -> str:
        """The last line it wrote, to stand behind why it ended; empty where it wrote none."""
        lines = bytes(self._last).decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return visible(self.masked(last)[:_LAST_CHARACTERS], newlines=False)

    def _write(self, text: str) -> None:
        if not text or self._left <= 0:
            return
        data = visible(text).encode(errors="replace")
        self._left -= len(data)
        if self._left <= 0:
            data = b"[bridle] it writes too much: the rest is left out\n"
        try:
            private_folder(os.path.dirname(self.path))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(self.path, flags, 0o600)
            try:
                if os.fstat(file).st_size + len(data) > MOST_BYTES:
                    os.replace(self.path, f"{self.path}.1")
                    os.close(file)
                    file = os.open(self.path, flags, 0o600)
                os.write(file, data[-MOST_BYTES:])
            finally:
                os.close(file)
        except OSError:
            return


GRACE_S: Final = 5.0
"""How long a server may take to leave once its input is closed."""
CLOSING_GRACE_S: Final = 1.0
"""The same, where the whole program is leaving."""


class LaunchPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server runs. `policy` and `env` are those of the session's commands; `roots` are the folders it is told
    of. `tokens` are those of a sign-in, by its name; None where there are none. `values` are what references in its
    definition stand for."""

    spawn: Spawn
    policy: SpawnPolicy
    cwd: str
    env: Mapping[str, str]
    roots: tuple[str, ...] = ()
    tokens: Callable[[str], ServerTokens] | None = None
    values: ReferenceValues | None = None


class RunOwner(Protocol):
    """The server whose run it is. It hears what the server offers and asks for."""

    async def connected_to(self, connection: ServerConnection) -> None:
        """The connection can be used from here on."""
        ...

    def hear_offer(self, offer: ToolList) -> None: ...
    def hear_refusal(self) -> None:
        """A request was not authorised."""
        ...

    def hear_put_aside(self, notice: Notice) -> None:
        """It made a policy file, which was quarantined."""
        ...

    async def answer_input(self, request: InputRequest) -> InputReply: ...
    async def answer_sample(self, request: SampleRequest) -> SampleReply: ...


class ServerRun:
    """A server that is started or reached once. `life` tells it when to end; `tokens` are those of a sign-in.

    `begin_call` is awaited before a call, and what it returns after it: what was made meanwhile is checked then."""

    def __init__(
        self,
        definition: ServerDefinition,
        place: LaunchPlace,
        owner: RunOwner,
        *,
        launch: str,
        clock: Clock,
        log: ServerLog,
        tokens: ServerTokens | None,
        life: Supervisor,
    ) -> None:
        self.tokens = tokens
        self.auth: TokenAuth | None = None
        self.counts: WireCounts | None = None
        self.begin_call: BeginCall = _begin_unchecked
        self._definition = definition
        self._place = place
        self._owner = owner
        self._launch = launch
        self._clock = clock
        self._log = log
        self._life = life
        self._grace_s = GRACE_S

    async def serve(self) -> RunEnd:
        """Return why it ended; nothing of it runs any more then. Raises `CannotStart`, `ImportError` and anything
        else."""
        process = await self._open_process() if self._definition.transport == "stdio" else None
        try:
            return await self._connect(process)
        finally:
            if process is not None:
                await self._end_process(process)

    async def _connect(self, process: DuplexProcess | None) -> RunEnd:
        definition = self._definition
        await in_thread(_load)
        from bridle.mcp.server_connection import ServerConnection
        from bridle.mcp.transports import WireCounts, http_streams, stdio_streams

        self.counts = counts = WireCounts(self._log.note)
        self.auth = auth = self._new_auth()
        connection = ServerConnection(
            definition,
            http_streams(definition, self._place.env, auth)
            if process is None
            else stdio_streams(process, counts),
            launch=self._launch,
            roots=self._place.roots,
            clock=self._clock,
            answer_input=self._owner.answer_input,
            answer_sample=self._owner.answer_sample,
            note=self._log.note,
            changed=self._owner.hear_offer,
        )
        serving = asyncio.create_task(connection.serve())
        ready = asyncio.create_task(connection.ready.wait())
        leave = asyncio.create_task(self._life.leave.wait())
        late = asyncio.create_task(self._clock.sleep(definition.connect_s))
        try:
            await asyncio.wait((serving, ready, leave, late), return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and not serving.done():
                await self._owner.connected_to(connection)
                await asyncio.wait((serving, leave), return_when=asyncio.FIRST_COMPLETED)
            elif late.done() and not serving.done():
                serving.cancel()
                self._grace_s = 0.0  # it did not listen before either
                return RunEnd(f"it was not ready within {definition.connect_s:g} s")
            connection.leave()
            await asyncio.wait((serving,), timeout=CLOSING_GRACE_S)
            if leave.done():
                return RunEnd()
            if auth is not None and auth.wants_sign_in:
                return RunEnd(auth.problem, held=True)
            return RunEnd(await self._why(serving, process))
        finally:
            for task in (serving, ready, leave, late):
                task.cancel()
            await asyncio.gather(serving, ready, leave, late, return_exceptions=True)

    def _new_auth(self) -> TokenAuth | None:
        if self.tokens is None:
            return None
        from bridle.mcp.server_tokens import TokenAuth

        return TokenAuth(self.tokens, login_command(self._definition.name), self._owner.hear_refusal)

    async def _why(self, serving: asyncio.Task[None], process: DuplexProcess | None) -> str:
        """Why a connection is over, as the end of a sentence."""
        said = self._log.last_line()
        behind = f": {said}" if said else ""
        if process is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):  # one that closes its connection is mostly about to end
                    code = await process.wait()
                    how = f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
                    return f"{how}{behind}"
        if serving.done() and not serving.cancelled() and (fault := serving.exception()) is not None:
            return f"{self._log.masked(root_cause(fault))}{behind}"
        return f"the connection ended{behind}"

    async def _open_process(self) -> DuplexProcess:
        definition, place = self._definition, self._place
        cwd = os.path.join(place.cwd, definition.folder)
        policy = server_policy(definition, place.policy)
        search_path = policy.variables.get("PATH", place.env.get("PATH", ""))
        files = server_files(definition.argv, cwd=cwd, search_path=search_path)
        policy = msgspec.structs.replace(policy, programs=(*policy.programs, *files))
        self._log.begin(f"started: {definition.argv[0]}")

        async def start(inlet: InputPipe, outlet: OutputPipe) -> Process:
            process = await place.spawn(
                definition.argv,
                cwd=cwd,
                env=place.env,
                policy=policy,
                call_id=f"mcp:{definition.name}",
                on_output=outlet,
                on_error=self._log.hear,
                stdin=inlet,
            )
            self.begin_call = process.follow_put_aside(self._hear_put_aside)
            return process

        return await open_duplex(start)

    def _hear_put_aside(self, notice: Notice) -> None:
        self._log.note(notice.message)
        self._owner.hear_put_aside(notice)

    async def _end_process(self, process: DuplexProcess) -> None:
        """Its input is closed, so it may leave by itself; then it is made to, with everything it left running."""
        process.close_input()
        left = asyncio.ensure_future(process.wait())
        drained = asyncio.ensure_future(_drain(process))
        late = asyncio.ensure_future(self._clock.sleep(self._grace_s))
        hurry = asyncio.ensure_future(self._life.hurry.wait())
        try:
            await asyncio.wait((left, late, hurry), return_when=asyncio.FIRST_COMPLETED)
            if hurry.done():
                await asyncio.wait((left,), timeout=CLOSING_GRACE_S)
        finally:
            for task in (left, late, hurry, drained):
                task.cancel()
            await process.stop()
            self.begin_call = _begin_unchecked
            await asyncio.gather(left, late, hurry, drained, return_exceptions=True)


def server_policy(definition: ServerDefinition, session: SpawnPolicy) -> SpawnPolicy:
    """How a server may run: as its definition says, and never more freely than a session that is meant to be strict.

    A server that a project has a say in has no more of the network than commands have.
    """
    mode = "read-only" if session.mode == "read-only" and definition.sandbox != "off" else definition.sandbox
    network = definition.network or session.network
    if definition.of_project:
        order = ("deny", "filtered", "inherit")
        network = min(network, session.network, key=order.index)
    return msgspec.structs.replace(
        session,
        mode=mode,
        network=network,
        scratch="",
        variables={**session.variables, **definition.env},
        resident=True,
    )


def server_files(argv: Sequence[str], *, cwd: str, search_path: str) -> tuple[str, ...]:
    """Return the files and folders that the command line of a server names.

    Of the program and of the first file behind it, usually the script, return the folder in which it is installed.
    """
    program = os.path.join(cwd, argv[0]) if "/" in argv[0] else shutil.which(argv[0], path=search_path) or ""
    named = [path for word in argv[1:] if os.path.exists(path := os.path.join(cwd, word))]
    script = next(filter(os.path.isfile, named), "")
    started = [path for path in (program, script) if path]
    resolved = map(os.path.realpath, started)
    return tuple(dict.fromkeys((*started, *named, *map(_install_folder, (*started, *resolved)))))


def _install_folder(path: str) -> str:
    """Return the folder with everything that was installed together with a file."""
    above, found, _ = path.partition("/node_modules/")
    if found:
        return above
    folder = os.path.dirname(path)
    return os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder


async def _end_unchecked() -> None:
    pass


async def _begin_unchecked() -> EndCall:
    return _end_unchecked


def _load() -> None:
    """Most of a second that nobody else is to wait for."""
    import_module("bridle.mcp.server_connection")


async def _drain(process: DuplexProcess) -> None:
    """Nobody reads it any more: a server that still writes must not wait for that."""
    while await process.read():
        pass


def root_cause(fault: BaseException) -> str:
    """The innermost reason of a failure, in its own words; of a connection that failed, in those for providers."""
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    cause = None if isinstance(fault, OSError) else _behind(fault)
    while cause is not None and not (isinstance(cause, OSError) and cause.errno):
        cause = _behind(cause)
    if cause is not None:
        return unreached(cause)[1]
    return str(fault) or type(fault).__name__


def _behind(fault: BaseException) -> BaseException | None:
    if isinstance(fault, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return fault.__cause__ or fault.__context__
