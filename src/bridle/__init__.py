"""Bridle: a local-first coding-agent harness, and the face it shows to programs that use it (docs/embedding.md).

`import bridle` imports nothing else: each of the names below comes when it is first used. What stands here is kept
within a minor release; everything else may move.
"""

TYPE_CHECKING = False  # `python -m bridle` would import a file `typing.py` of the working folder here

if TYPE_CHECKING:
    from bridle.agents.definition import AgentDefinition as AgentDefinition
    from bridle.agents.definition import AgentRule as AgentRule
    from bridle.app.service.embedding import open_engine as open_engine
    from bridle.clients import hub as hub
    from bridle.credentials.login_link import login_link as login_link
    from bridle.engine.function_tool import tool as tool
    from bridle.engine.steps import AskModel as AskModel
    from bridle.engine.steps import Reply as Reply
    from bridle.engine.steps import RequestLayer as RequestLayer
    from bridle.engine.steps import Step as Step
    from bridle.engine.tools import RunTool as RunTool
    from bridle.engine.tools import Tool as Tool
    from bridle.engine.tools import ToolCall as ToolCall
    from bridle.engine.tools import ToolContext as ToolContext
    from bridle.engine.tools import ToolLayer as ToolLayer
    from bridle.engine.tools import ToolOutput as ToolOutput
    from bridle.plugin.registrar import Plugin as Plugin
    from bridle.plugin.registrar import Registrar as Registrar
    from bridle.protocol.commands import AnswerPermission as AnswerPermission
    from bridle.protocol.commands import CreateSession as CreateSession
    from bridle.protocol.commands import RunSlash as RunSlash
    from bridle.protocol.commands import SendInput as SendInput
    from bridle.protocol.commands import SessionOptions as SessionOptions
    from bridle.protocol.errors import BridleError as BridleError
    from bridle.protocol.events import ContextAdded as ContextAdded
    from bridle.protocol.events import CustomEvent as CustomEvent
    from bridle.protocol.events import Envelope as Envelope
    from bridle.protocol.events import Notice as Notice
    from bridle.protocol.events import PermissionRequested as PermissionRequested
    from bridle.protocol.events import TextDelta as TextDelta
    from bridle.protocol.events import TurnEnded as TurnEnded
    from bridle.protocol.messages import TextBlock as TextBlock
    from bridle.protocol.slash_arguments import SlashArgument as SlashArgument

_HOMES = {
    "AgentDefinition": "bridle.agents.definition",
    "AgentRule": "bridle.agents.definition",
    "open_engine": "bridle.app.service.embedding",
    "login_link": "bridle.credentials.login_link",
    "tool": "bridle.engine.function_tool",
    "AskModel": "bridle.engine.steps",
    "Reply": "bridle.engine.steps",
    "RequestLayer": "bridle.engine.steps",
    "Step": "bridle.engine.steps",
    "RunTool": "bridle.engine.tools",
    "Tool": "bridle.engine.tools",
    "ToolCall": "bridle.engine.tools",
    "ToolContext": "bridle.engine.tools",
    "ToolLayer": "bridle.engine.tools",
    "ToolOutput": "bridle.engine.tools",
    "Plugin": "bridle.plugin.registrar",
    "Registrar": "bridle.plugin.registrar",
    "AnswerPermission": "bridle.protocol.commands",
    "CreateSession": "bridle.protocol.commands",
    "RunSlash": "bridle.protocol.commands",
    "SendInput": "bridle.protocol.commands",
    "SessionOptions": "bridle.protocol.commands",
    "BridleError": "bridle.protocol.errors",
    "ContextAdded": "bridle.protocol.events",
    "CustomEvent": "bridle.protocol.events",
    "Envelope": "bridle.protocol.events",
    "Notice": "bridle.protocol.events",
    "PermissionRequested": "bridle.protocol.events",
    "TextDelta": "bridle.protocol.events",
    "TurnEnded": "bridle.protocol.events",
    "TextBlock": "bridle.protocol.messages",
    "SlashArgument": "bridle.protocol.slash_arguments",
}
"""The module each name comes from."""


_MODULES = {"hub": "bridle.clients.hub"}
"""The modules that are part of the face as a whole."""


def __getattr__(name: str) -> object:
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return globals().setdefault(name, import_module(_MODULES[name]))
    return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
