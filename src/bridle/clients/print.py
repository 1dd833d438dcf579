"""One task, then exit: the answer on stdout, the story on stderr, or everything as JSON.

Nobody sits here, so questions cannot be answered; the engine knows that from how this client attaches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TextIO

import msgspec

from bridle.base.visible import visible
from bridle.clients.story import Story, describe_call
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope
from bridle.protocol.commands import CancelTurn, CreateSession, SendInput
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, exit_code_of
from bridle.protocol.events import Envelope
from bridle.protocol.messages import TextBlock

SCHEMA_VERSION = 1
EXIT_INTERRUPTED = 130
EXIT_READER_GONE = 141

Format = Literal["text", "json", "stream-json"]


class RunResult(msgspec.Struct, kw_only=True, rename="camel"):
    """What a run came to, as `--json` prints it. `exit_code` equals the exit status of the process."""

    schema_version: int = SCHEMA_VERSION
    command: str = "run"
    thread_id: str | None = None
    session_id: str | None = None
    success: bool = False
    final_response: str = ""
    events: list[msgspec.Raw] = []
    error: dict[str, str] | None = None
    exit_code: int = msgspec.field(default=1, name="exit_code")
    reason: str | None = None
    denied: list[dict[str, str]] = []
    changed_files: list[str] = msgspec.field(default_factory=list, name="changed_files")


class Printer:
    """Follows one run and writes it down. `story` gets one line per call, without a line end."""

    def __init__(self, *, form: Format, out: TextIO, story: Callable[[str], None], telling: Story) -> None:
        self._form = form
        self._out = out
        self._say = story
        self._telling = telling
        self._result = RunResult()
        self._text: list[str] = []
        self._calls: dict[str, str] = {}
        self._steps = 0
        self._begun_ms = 0
        self._reader_gone = False

    @property
    def session(self) -> str | None:
        return self._result.session_id

    async def run(self, connection: Connection, create: CreateSession, prompt: str) -> int:
        """Sends the prompt, follows its turn to the end and returns the exit code."""
        try:
            created = await connection.send(create)
            self._result.session_id = self._result.thread_id = created.session
            content = (TextBlock(text=prompt),)
            since = (created.event or 0) if create.resume else 0
            sent = await connection.send(SendInput(session=created.session, content=content, mode="queue"))
            code = await self._follow(connection, created.session, since, sent.event or 0)
        except BridleError as failure:
            return self.fail(failure)
        return self._finish(code)

    def fail(self, failure: BridleError) -> int:
        """A run that could not begin or go on: one sentence, the exit code of its reason."""
        self._result.error = {"name": failure.reason, "message": failure.message}
        self._result.reason = failure.reason
        self._say(visible(failure.message))
        return self._finish(failure.exit_code)

    async def _follow(self, connection: Connection, session: str, since: int, own_input: int) -> int:
        own_turn = False
        async for envelope in connection.events(session, since=since):
            self._show(envelope)
            if self._reader_gone:
                await self._give_up(connection, session)
                return EXIT_READER_GONE
            match envelope.event:
                case e.TurnStarted(input=number):
                    own_turn = number == own_input
                    self._begun_ms = envelope.ts_ms
                case e.TurnEnded() as ended if own_turn:
                    return self._turn_ended(ended, envelope.ts_ms)
                case _:
                    pass
        return 1

    @staticmethod
    async def _give_up(connection: Connection, session: str) -> None:
        try:
            await connection.send(CancelTurn(session=session))
        except BridleError:
            return

    def _show(self, envelope: Envelope) -> None:
        self._collect(envelope.event)
        for line in self._telling.lines(envelope.event):
            self._say(line)
        if self._form == "json" and envelope.id is not None:
            self._result.events.append(msgspec.Raw(encode_envelope(envelope)))
        elif self._form == "stream-json":
            body = {
                "schemaVersion": SCHEMA_VERSION,
                "command": "run",
                "threadId": self._result.thread_id,
                "eventType": envelope.kind,
                "event": msgspec.Raw(encode_envelope(envelope)),
            }
            self._write_json(body)

    def _collect(self, event: e.AnyEvent) -> None:
        match event:
            case e.StepStarted() | e.StepFailed():
                self._text.clear()
            case e.TextDelta(text=text):
                self._text.append(text)
            case e.ToolCallRequested():
                self._calls[event.call_id] = describe_call(event.tool, event.input)
            case e.ToolResult():
                self._collect_result(event)
            case _:
                pass

    def _collect_result(self, result: e.ToolResult) -> None:
        if result.outcome in ("denied", "blocked"):
            self._result.denied.append(
                {
                    "tool": result.tool,
                    "call": self._calls.get(result.call_id, result.tool),
                    "reason": result.reason or "",
                }
            )
        path = result.metadata.get("path")
        changed = result.outcome == "ok" and "added" in result.metadata
        if changed and isinstance(path, str) and path not in self._result.changed_files:
            self._result.changed_files.append(path)

    def _turn_ended(self, ended: e.TurnEnded, ts_ms: int) -> int:
        result = self._result
        result.reason = ended.reason
        result.success = ended.stop == "end_turn"
        result.final_response = "".join(self._text)
        if ended.stop == "cancelled":
            code = EXIT_INTERRUPTED
        elif result.success:
            code = 0
        else:
            code = exit_code_of(ended.reason)
        if not result.success:
            result.error = {"name": ended.reason or ended.stop, "message": ended.message or ended.stop}
        self._say(self._closing_line(ended, ts_ms))
        return code

    def _closing_line(self, ended: e.TurnEnded, ts_ms: int) -> str:
        word = "done" if self._result.success else "ended"
        changed, denied = len(self._result.changed_files), len(self._result.denied)
        facts = [f"{(ts_ms - self._begun_ms) / 1000:.1f} s", _count(ended.steps, "step")]
        if changed:
            facts.append(f"{_count(changed, 'file')} changed")
        if denied:
            facts.append(f"{_count(denied, 'call')} not run")
        if not self._result.success:
            facts.insert(0, visible(ended.message or ended.stop))
        return f"{word:<8} " + " · ".join(facts)

    def _finish(self, code: int) -> int:
        result = self._result
        result.exit_code = code
        if self._form == "json":
            self._write_json(result)
        elif self._form == "stream-json":
            last: dict[str, Any] = msgspec.to_builtins(result)
            last.pop("events")  # they were streamed already
            self._write_json({**last, "eventType": "run.result"})
        elif result.final_response:
            text = result.final_response
            self._write((visible(text) if self._out.isatty() else text) + "\n")
        return EXIT_READER_GONE if self._reader_gone else code

    def _write_json(self, value: Any) -> None:
        self._write(msgspec.json.encode(value).decode() + "\n")

    def _write(self, text: str) -> None:
        if self._reader_gone:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except (BrokenPipeError, ValueError):
            self._reader_gone = True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
