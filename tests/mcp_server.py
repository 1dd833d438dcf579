"""A small MCP server over standard input and output that does what it is told, good or bad. Standard library only.

    python mcp_server.py '{"tools": 3, "crash_in": "boom"}'

It speaks revision 2025-11-25: `server/discover` is not known to it. Keys of its JSON argument:
tools        how many tools t0, t1 … it has besides the named ones
named        more tools, as {"name", "description", "annotations", "inputSchema"}
file         the same from a JSON file, read whenever the tools are listed
page         so many tools per page
silent       it answers nothing
die          it ends at once, with these words on standard error
started      a file to which its process id is appended when it starts
child        a file to which the id of a child is written that outlives it
garbage      so many lines of it before each answer
stays        it does not leave when its input is closed
prompts      its prompts, in place of one called greet
"""

import json
import os
import subprocess
import sys
import threading
import time

told = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
lock = threading.Lock()
answers: dict = {}
changed = {"tools": []}


def send(message: dict) -> None:
    data = (json.dumps({"jsonrpc": "2.0", **message}) + "\n").encode()
    with lock:
        while data:
            data = data[os.write(1, data) :]


def ask(method: str, params: dict) -> dict:
    """A request of the server's own, answered by the client."""
    name = f"s{len(answers) + 1}"
    answers[name] = threading.Event()
    send({"id": name, "method": method, "params": params})
    answers[name].wait()
    return answers[name].value


def text(words: str, **more) -> dict:
    return {"content": [{"type": "text", "text": words}], **more}


def tools() -> list:
    numbered = [
        {"name": f"t{n}", "description": f"The tool number {n}.", "inputSchema": {"type": "object"}}
        for n in range(told.get("tools", 0))
    ]
    every = [
        "echo", "add", "fail", "crash", "hang", "flood", "big", "picture", "progress", "change", "ask", "visit", "env",
        "write", "refuse",
    ]  # fmt: skip
    named = told.get("named")
    if path := told.get("file"):
        with open(path) as file:
            named = json.load(file)
    if named is None:
        named = [{"name": name} for name in every]
    for tool in (*named, *changed["tools"]):
        tool.setdefault("description", f"Does {tool['name']}.")
        tool.setdefault("inputSchema", {"type": "object"})
    return [*named, *changed["tools"], *numbered]


def call(name: str, given: dict, meta: dict) -> dict:  # noqa: RET503  some of it never comes back
    match name:
        case "add":
            return text(str(given["a"] + given["b"]), structuredContent={"sum": given["a"] + given["b"]})
        case "fail":
            return text("it did not work", isError=True)
        case "crash":
            os._exit(3)
        case "hang":
            threading.Event().wait()
        case "flood":
            for number in range(5_000):
                send(
                    {"method": "notifications/message", "params": {"level": "info", "data": f"line {number}"}}
                )
            return text("flooded")
        case "torrent":
            number = 0
            while True:
                number += 1
                params = {"level": "info", "data": f"line {number}" * 20}
                send({"method": "notifications/message", "params": params})
                print("and more words", file=sys.stderr, flush=True)
        case "big":
            return text("x" * given.get("bytes", 20_000_000))
        case "picture":
            data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
            return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
        case "progress":
            for number in (1, 2):
                params = {
                    "progressToken": meta["progressToken"],
                    "progress": number,
                    "total": 2,
                    "message": "half",
                }
                send({"method": "notifications/progress", "params": params})
            while not os.path.exists(given["until"]):
                time.sleep(0.01)
            return text("done")
        case "change":
            if not told.get("file"):
                changed["tools"] = [{"name": "extra", "description": "It was not here before."}]
            send({"method": "notifications/tools/list_changed"})
            return text("changed")
        case "ask":
            form = {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "title": "Name"},
                    "count": {"type": "integer", "minimum": 1},
                    "colour": {"type": "string", "enum": ["red", "blue"]},
                },
                "required": ["name"],
            }
            return text(json.dumps(ask("elicitation/create", {"message": "Who?", "requestedSchema": form})))
        case "nag":
            form = {"type": "object", "properties": {"more": {"type": "string"}}}
            params = {"message": "And now?", "requestedSchema": form}
            while True:
                ask("elicitation/create", params)
        case "visit":
            params = {
                "mode": "url",
                "message": "Sign in",
                "url": "https://example.org/x",
                "elicitationId": "e1",
            }
            return text(json.dumps(ask("elicitation/create", params)))
        case "sample":
            message = {"role": "user", "content": {"type": "text", "text": given.get("words", "Say hello")}}
            params = {
                "messages": [message],
                "systemPrompt": "Be brief.",
                "maxTokens": 50,
                **given.get("more", {}),
            }
            return text(json.dumps(ask("sampling/createMessage", params)))
        case "env":
            return text(
                json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "roots": ask("roots/list", {})})
            )
        case "write":
            try:
                with open(given["path"], "w") as file:
                    file.write("written")
            except OSError as problem:
                return text(str(problem), isError=True)
            return text("written")
        case "refuse":
            raise ValueError("not like this")
        case _:
            return text(f"{name} {json.dumps(given)}")


def answer(request_id, method: str, params: dict) -> None:
    for _ in range(told.get("garbage", 0)):
        with lock:
            os.write(1, b"Listening on port 1234 {\n")
    try:
        match method:
            case "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
                    "serverInfo": {"name": told.get("name", "test server"), "version": "1"},
                }
            case "tools/list":
                everything, size = tools(), told.get("page", 1000)
                at = int((params or {}).get("cursor") or 0)
                result = {"tools": everything[at : at + size]}
                if at + size < len(everything):
                    result["nextCursor"] = str(at + size)
            case "tools/call":
                given = params.get("arguments") or {}
                result = call(params["name"], given, params.get("_meta") or {})
            case "resources/list":
                one = {"uri": "note://a", "name": "a", "description": "A note.", "mimeType": "text/plain"}
                result = {"resources": [one]}
            case "resources/templates/list":
                result = {"resourceTemplates": []}
            case "resources/read":
                result = {
                    "contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "A note to read."}]
                }
            case "prompts/list":
                words = [{"name": "who", "required": True}, {"name": "what"}]
                greet = {"name": "greet", "description": "Greets.", "arguments": words}
                result = {"prompts": told.get("prompts", [greet])}
            case "prompts/get":
                said = f"{params['name'].capitalize()} {json.dumps(params.get('arguments'))}"
                result = {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
            case "ping":
                result = {}
            case _:
                send({"id": request_id, "error": {"code": -32601, "message": "Method not found"}})
                return
    except (ValueError, KeyError) as problem:
        send({"id": request_id, "error": {"code": -32602, "message": str(problem)}})
        return
    send({"id": request_id, "result": result})


def main() -> None:
    if started := told.get("started"):
        with open(started, "a") as file:
            file.write(f"{os.getpid()}\n")
    if child := told.get("child"):
        process = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with open(child, "w") as file:
            file.write(str(process.pid))
    if die := told.get("die"):
        print(die, file=sys.stderr, flush=True)
        sys.exit(1)
    for line in sys.stdin:
        message = json.loads(line)
        if told.get("silent"):
            continue
        if "method" not in message:
            waiting = answers[message["id"]]
            waiting.value = message.get("result") or message.get("error")
            waiting.set()
        elif "id" in message:
            work = (message["id"], message["method"], message.get("params"))
            threading.Thread(target=answer, args=work, daemon=True).start()
    while told.get("stays"):
        time.sleep(1)


main()
