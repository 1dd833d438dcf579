"""A server with the tools, resources and prompts that the conformance suite looks for by name, and nothing of ours."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
_SECRET = os.urandom(16)
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def resource(uri: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": words}}


def said(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": list(content), "resultType": "complete", **more}


CONTENT: dict[str, dict[str, Any]] = {
    "test_simple_text": said(text("This is a simple text response for testing.")),
    "test_image_content": said(IMAGE),
    "test_audio_content": said({"type": "audio", "data": WAV, "mimeType": "audio/wav"}),
    "test_embedded_resource": said(
        resource("test://embedded-resource", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": said(
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", '{"test": "data"}'),
    ),
    "test_error_handling": said(text("This tool intentionally returns an error for testing"), isError=True),
}


# Input that a call needs from its client


def form(message: str, name: str, kind: str = "string") -> dict[str, Any]:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(words: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(words)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


ROOTS = {"method": "roots/list", "params": {}}
NAME = form("What is your name?", "name")
CONFIRM = {"confirm": form("Please confirm", "ok", "boolean")}
ROUNDS: dict[str, list[dict[str, Any]]] = {
    "test_input_required_result_elicitation": [{"user_name": NAME}],
    "test_input_required_result_sampling": [{"capital_question": sampling("What is the capital of France?")}],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [CONFIRM],
    "test_input_required_result_tampered_state": [CONFIRM],
    "test_input_required_result_multiple_inputs": [
        {"user_name": NAME, "greeting": sampling("Say hello"), "client_roots": ROOTS}
    ],
    "test_input_required_result_multi_round": [
        {"step1": form("Step 1: What is your name?", "name")},
        {"step2": form("Step 2: What is your favorite color?", "color")},
    ],
    "test_streaming_elicitation": [{"user_name": NAME}],
}


CHOICES = [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]
OPTIONS = ["option1", "option2", "option3"]
FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": CHOICES},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": CHOICES}},
    },
}
FORMS = {name: {"type": "object", "properties": fields, "required": []} for name, fields in FORMS.items()}


async def _sampled(ctx: Any, prompt: str) -> dict[str, Any]:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return said(text(f"LLM response: {answer.content.text}"))


def complete(**fields: Any) -> dict[str, Any]:
    return {**fields, "resultType": "complete"}


def state(number: int) -> str:
    return f"{number}.{hmac.new(_SECRET, str(number).encode(), hashlib.sha256).hexdigest()}"


def in_rounds(
    rounds: list[dict[str, Any]], params: Any, done: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """Asks for what each round wants, and says `done` once all of it is there."""
    given = params.input_responses or {}
    number = 0
    if params.request_state is not None:
        number = int(params.request_state.partition(".")[0])
        if not hmac.compare_digest(params.request_state, state(number)):
            raise MCPError(types.INVALID_PARAMS, "requestState is none of ours")
    if number < len(rounds) and rounds[number].keys() <= given.keys():
        number += 1
    if number == len(rounds):
        return done(given)
    return {"resultType": "input_required", "inputRequests": rounds[number], "requestState": state(number)}


def answers(given: Any) -> dict[str, Any]:
    found = " ".join(str(one.model_dump() if hasattr(one, "model_dump") else one) for one in given.values())
    return said(text(f"state-ok Hello, {found}!"))


def conformance_server() -> Server[Any]:
    bus = InMemorySubscriptionBus()

    async def call(ctx: Any, params: types.CallToolRequestParams) -> Any:
        name = params.name
        if name in CONTENT:
            return CONTENT[name]
        if name in ROUNDS:
            return in_rounds(ROUNDS[name], params, answers)
        match name:
            case "test_tool_with_progress":
                for number in (0, 50, 100):
                    await ctx.session.report_progress(number, 100, f"{number} of 100")
            case "test_input_required_result_capabilities":
                wanted = {"greeting": sampling("Say hello"), "user_name": NAME}
                declared = ctx.session.client_capabilities
                if declared is None or declared.elicitation is None:
                    del wanted["user_name"]
                return in_rounds([wanted], params, answers)
            case "test_missing_capability":
                if not ctx.session.check_client_capability(
                    types.ClientCapabilities(sampling=types.SamplingCapability())
                ):
                    needs = {"requiredCapabilities": {"sampling": {}}}
                    raise MCPError(-32021, "This tool needs sampling", needs)
            case "test_trigger_tool_change":
                await bus.publish(ToolsListChanged())
            case "test_trigger_prompt_change":
                await bus.publish(PromptsListChanged())
            case "test_logging_tool" | "test_tool_with_logging":
                for words in ("started", "processing", "completed"):
                    await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
            case "test_sampling":
                return await _sampled(ctx, (params.arguments or {})["prompt"])
            case _ if name in FORMS:
                asked = await ctx.session.elicit_form(
                    "Please answer", FORMS[name], related_request_id=ctx.request_id
                )
                return said(text(f"Elicitation completed: action={asked.action}, content={asked.content}"))
            case _:
                raise MCPError(types.INVALID_PARAMS, f"There is no tool {name}")
        return said(text("done"))

    names = [
        *CONTENT, *ROUNDS, "test_tool_with_progress", "test_input_required_result_capabilities",
        "test_missing_capability", "test_trigger_tool_change", "test_trigger_prompt_change", "test_logging_tool",
        "test_tool_with_logging", "test_sampling", *FORMS,
    ]  # fmt: skip

    async def tools(_ctx: Any, _params: Any) -> Any:
        return complete(
            tools=[{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in names]
        )

    hint = CacheHint(ttl_ms=1000, scope="private")
    return Server(
        "conformance",
        version="1",
        cache_hints=dict.fromkeys(
            (
                "tools/list",
                "resources/list",
                "resources/templates/list",
                "resources/read",
                "prompts/list",
                "server/discover",
            ),
            hint,
        ),
        on_list_tools=tools,
        on_call_tool=call,
        on_list_resources=_resources,
        on_list_resource_templates=_templates,
        on_read_resource=_read,
        on_subscribe_resource=_nothing,
        on_unsubscribe_resource=_nothing,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=_prompts,
        on_get_prompt=_prompt,
        on_completion=_complete,
        on_set_logging_level=_nothing,
    )


async def _nothing(_ctx: Any, _params: Any) -> Any:
    return {}


async def _resources(_ctx: Any, _params: Any) -> Any:
    uris = ("test://static-text", "test://static-binary", "test://watched-resource")
    return complete(resources=[{"uri": uri, "name": uri, "description": uri} for uri in uris])


async def _templates(_ctx: Any, _params: Any) -> Any:
    return complete(resourceTemplates=[{"uriTemplate": "test://template/{id}/data", "name": "template"}])


async def _read(ctx: Any, params: Any) -> Any:
    uri, found = params.uri, {"uri": params.uri, "mimeType": "text/plain"}
    if uri == "test://static-binary":
        return complete(contents=[{"uri": uri, "mimeType": "image/png", "blob": PNG}])
    if uri in ("test://static-text", "test://watched-resource"):
        return complete(contents=[{**found, "text": "This is the content of the static text resource."}])
    if uri.startswith("test://template/"):
        number = uri.split("/")[3]
        words = f'{{"id": "{number}", "templateTest": true, "data": "Data for ID: {number}"}}'
        return complete(contents=[{"uri": uri, "mimeType": "application/json", "text": words}])
    code = types.INVALID_PARAMS if ctx.protocol_version > "2025-11-25" else -32002
    raise MCPError(code, "Resource not found", {"uri": uri})


PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def _prompts(_ctx: Any, _params: Any) -> Any:
    return complete(
        prompts=[
            {
                "name": name,
                "description": name,
                "arguments": [{"name": one, "required": True} for one in wanted],
            }
            for name, wanted in PROMPTS.items()
        ]
    )


async def _prompt(_ctx: Any, params: Any) -> Any:
    given = params.arguments or {}

    def messages(*content: dict[str, Any]) -> dict[str, Any]:
        return complete(messages=[{"role": "user", "content": one} for one in content])

    match params.name:
        case "test_simple_prompt":
            return messages(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            return messages(
                text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
            )
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            return messages(
                resource(given["resourceUri"], words), text("Please process the embedded resource above.")
            )
        case "test_prompt_with_image":
            return messages(IMAGE, text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            asked = {"user_context": form("What context should the prompt use?", "context")}
            return in_rounds([asked], params, lambda found: messages(text(f"Context: {list(found)}")))
        case _:
            raise MCPError(types.INVALID_PARAMS, "There is no such prompt")


async def _complete(_ctx: Any, _params: Any) -> Any:
    return complete(completion={"values": ["test"], "total": 1, "hasMore": False})
