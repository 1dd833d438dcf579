"""Bridle: a local-first coding-agent harness, and the face it shows to programs that use it (docs/embedding.md).

`import bridle` imports nothing else: each of the names below comes when it is first used. What stands here is kept
within a minor release; everything else may move.
"""

TYPE_CHECKING = False  # what type checkers take for true; `typing` would be an import
if TYPE_CHECKING:
    from bridle.app.embedding import open_engine as open_engine
    from bridle.engine.function_tool import tool as tool
    from bridle.engine.tools import Tool as Tool
    from bridle.engine.tools import ToolContext as ToolContext
    from bridle.engine.tools import ToolOutput as ToolOutput
    from bridle.protocol.commands import CreateSession as CreateSession
    from bridle.protocol.commands import SendInput as SendInput
    from bridle.protocol.errors import BridleError as BridleError
    from bridle.protocol.messages import TextBlock as TextBlock

_HOMES = {
    "open_engine": "bridle.app.embedding",
    "tool": "bridle.engine.function_tool",
    "Tool": "bridle.engine.tools",
    "ToolContext": "bridle.engine.tools",
    "ToolOutput": "bridle.engine.tools",
    "CreateSession": "bridle.protocol.commands",
    "SendInput": "bridle.protocol.commands",
    "BridleError": "bridle.protocol.errors",
    "TextBlock": "bridle.protocol.messages",
}
"""The module each name comes from."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
