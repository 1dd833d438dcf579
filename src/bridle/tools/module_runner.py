"""The other end of a tool module: runs in a process of its own, never in the engine, and knows nothing of Bridle.

One line of JSON comes in, `{"path", "source", "input"}`: the text of the module as a person agreed to it, and what it
is called with, or null to have it described. One line goes out: `{"tool": …}`, `{"ok", "content"}` or
`{"problem": …}`. What the module prints goes to standard error.
"""

import asyncio
import json
import os
import sys
import types
from typing import Any, cast


def _field(tool: Any, *names: str) -> Any:
    known = cast("dict[str, Any] | None", tool if isinstance(tool, dict) else None)
    for name in names:
        value = getattr(cast("object", tool), name, None) if known is None else known.get(name)
        if value is not None:
            return value
    return None


def _loaded(path: str, source: str) -> Any:
    module = types.ModuleType("tool_module")
    module.__file__ = path
    exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102  this is what a person agreed to
    tool = getattr(module, "tool", None)
    if tool is None:
        raise LookupError("it has no object called tool")
    return tool


def _described(tool: Any) -> dict[str, Any]:
    missing = [
        names[-1]
        for names in (("name",), ("description",), ("inputSchema", "input_schema"), ("run", "execute"))
        if _field(tool, *names) is None
    ]
    if missing:
        raise LookupError(f"its tool has no {' and no '.join(missing)}")
    return {
        "name": _field(tool, "name"),
        "description": _field(tool, "description"),
        "input_schema": _field(tool, "inputSchema", "input_schema"),
    }


def _called(tool: Any, given: Any) -> dict[str, Any]:
    answer = _field(tool, "execute", "run")(given)
    if hasattr(answer, "__await__"):
        answer = asyncio.run(_awaited(answer))
    said = cast("dict[str, Any]", answer if isinstance(answer, dict) else {})
    if "content" in said:
        return {"ok": bool(said.get("ok", True)), "content": str(said["content"])}
    return {"ok": True, "content": answer if isinstance(answer, str) else json.dumps(answer)}


async def _awaited(answer: Any) -> Any:
    return await answer


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline())
    try:
        tool = _loaded(request["path"], request["source"])
        given = request["input"]
        answer = {"tool": _described(tool)} if given is None else _called(tool, given)
        line = json.dumps(answer)
    except (Exception, SystemExit) as fault:  # noqa: BLE001  whatever it is, it is told
        line = json.dumps({"problem": f"{type(fault).__name__}: {fault}"[:2000]})
    out.write(line + "\n")
    out.close()


if __name__ == "__main__":
    main()
