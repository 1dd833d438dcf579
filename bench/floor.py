"""`floor.py HOST PORT`: the least that is an agent. A loop, one tool, server-sent events, the standard library.

Nothing is checked, kept, shown or taken back. What it takes for a turn is what the machine takes for it.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from io import BufferedRWPair
from typing import Any


def main() -> None:
    host, port = sys.argv[1:]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rwb") as stream:
        while True:
            text, call = _asked(stream, messages)
            if call is None:
                print(text)
                return
            command = json.loads(call["function"]["arguments"])["command"]
            ran = subprocess.run(
                ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
            )
            result = {"role": "tool", "tool_call_id": call["id"], "content": ran.stdout.decode()}
            messages += [{"role": "assistant", "tool_calls": [call]}, result]


def _asked(stream: BufferedRWPair, messages: list[dict[str, Any]]) -> tuple[str, dict[str, Any] | None]:
    """What the model says to all this, and the last call it asks for."""
    body = json.dumps({"model": "any", "messages": messages, "stream": True}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: floor\r\ncontent-type: application/json\r\n"
    stream.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    stream.flush()
    while stream.readline() != b"\r\n":
        pass
    text = ""
    call: dict[str, Any] = {}
    while size := int(stream.readline(), 16):
        chunk = stream.read(size)
        stream.readline()
        for line in chunk.split(b"\n"):
            if not line.startswith(b"data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                text += choice["delta"].get("content") or ""
                for part in choice["delta"].get("tool_calls", ()):
                    if "id" in part:
                        call = {"id": part["id"], "type": "function", "function": {**part["function"]}}
                    else:
                        call["function"]["arguments"] += part["function"]["arguments"]
    stream.readline()
    return text, call or None


if __name__ == "__main__":
    main()
