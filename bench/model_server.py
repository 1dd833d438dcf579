"""`model_server.py SCRIPT` plays a script over HTTP. Prints its URL, then when each request came (monotonic).

A process of its own, so that its work is not counted as Bridle's. It ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import sys
import time

from bridle.conformance.servers import ModelServer, Received, ReplyWriter
from bridle.providers.script import find_script, parse_script


class _Noting(ModelServer):
    async def answer(self, request: Received, reply: ReplyWriter) -> bool:
        print(f"{time.monotonic()} {request.method} {request.path}", flush=True)
        return await super().answer(request, reply)


async def _serve(script: str) -> None:
    path, text = find_script(script)
    async with _Noting(parse_script(text, path=path)) as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
