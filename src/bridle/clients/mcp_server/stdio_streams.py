"""The standard streams of this process as a transport of the SDK: one message a line, and no line too long.

While it is open, nothing else in this process writes to stdout or reads stdin: what is printed by accident goes to
stderr.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.shared.message import SessionMessage

from bridle.protocol.errors import UsageError

LONGEST_LINE = 4 * 1024 * 1024
"""What is longer is answered with an error and let go; the same holds for a request over HTTP."""
_CHUNK = 64 * 1024
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")')


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[tuple[Any, Any]]:
    """What the SDK reads messages from and writes them to. The first ends when stdin does."""
    stdin, stdout = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    chunks = asyncio.StreamReader()
    try:
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(chunks), os.fdopen(stdin, "rb", buffering=0)
        )
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(stdout, "wb", buffering=0)
        )
    except ValueError:
        raise UsageError(
            "bridle mcp serve talks with the program that starts it, through pipes. See: bridle help mcp"
        ) from None
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = (
        asyncio.ensure_future(_read(chunks, incoming, writer)),
        asyncio.ensure_future(_write(outgoing, writer)),
    )
    try:
        yield read_stream, write_stream
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (incoming, read_stream, write_stream, outgoing):
            stream.close()
        reading.close()
        writer.close()


class _Line(msgspec.Struct):
    """A line as it comes in. Of one that is too long only the beginning and the end are kept."""

    parts: list[bytes] = []
    size: int = 0

    @property
    def is_too_long(self) -> bool:
        return self.size > LONGEST_LINE

    def add(self, part: bytes) -> None:
        self.size += len(part)
        self.parts = [self.parts[0], part] if self.is_too_long and self.parts else [*self.parts, part]

    @property
    def text(self) -> bytes:
        return b"".join(self.parts)


async def lines_of(chunks: asyncio.StreamReader) -> AsyncGenerator[_Line]:
    """The lines of a stream, the last one too if it has no end."""
    line = _Line()
    while chunk := await chunks.read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line.add(part)
            yield line
            line = _Line()
        line.add(rest)
    yield line


async def _read(chunks: asyncio.StreamReader, incoming: Any, writer: asyncio.StreamWriter) -> None:
    async with incoming:
        async for line in lines_of(chunks):
            text = line.text
            if line.is_too_long:
                _refuse(writer, types.INVALID_REQUEST, f"A message has at most {LONGEST_LINE} bytes.", text)
            elif text.strip():
                try:
                    message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
                except ValueError:
                    _refuse(writer, types.PARSE_ERROR, "This line is no JSON-RPC message.", text)
                else:
                    await incoming.send(SessionMessage(message))


def _refuse(writer: asyncio.StreamWriter, code: int, why: str, text: bytes) -> None:
    """Answers what cannot be read, with its id where one can be seen: somebody waits for it."""
    found = _ID.search(text)
    number = msgspec.json.decode(found[1]) if found else None
    error = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": why}}
    writer.write(msgspec.json.encode(error) + b"\n")


async def _write(outgoing: Any, writer: asyncio.StreamWriter) -> None:
    async with outgoing:
        async for sent in outgoing:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            writer.write(text.encode() + b"\n")
            await writer.drain()
