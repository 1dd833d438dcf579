"""A client for the conformance suite of MCP: `bridle mcp test` and `bridle mcp login`, as a person would type them.

    python mcp_client_driver.py URL          what to do stands in the environment, as the suite says

Everything that talks to the suite is Bridle. Here is only the person: who writes settings, calls the tool that the
scenario is about, signs in where they are told to, and has a browser that agrees to everything.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import msgspec

from bridle.cli import main
from bridle.config.folders import folders
from bridle.mcp.tool_lists import ToolList

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
BROWSER = Path(__file__).parents[1] / "agreeing_browser.py"
MOST_SIGN_INS = 3
NEEDS_SIGN_IN = 4
CALLS = {
    "tools_call": [("add_numbers", {"a": 5, "b": 3})],
    "elicitation-sep1034-client-defaults": [("test_client_elicitation_defaults", {})],
    "sse-retry": [("test_reconnection", {})],
    "http-standard-headers": [("test_headers", {})],
    "http-invalid-tool-headers": [("valid_tool", {"region": "eu"})],
    "sep-2322-client-request-state": [
        ("test_mrtr_echo_state", {}),
        ("test_mrtr_no_state", {}),
        ("test_mrtr_unrelated", {}),
        ("test_mrtr_no_result_type", {}),
    ],
}


def bridle(*words: str) -> int:
    """Runs `bridle WORDS…` to its end."""
    print("$ bridle", *words, flush=True)
    try:
        main(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def listed() -> dict[str, dict]:
    """The schemas of the tools as a session would tell them to the model."""
    (kept,) = Path(folders(os.environ).state, "mcp", "lists").glob("*.json")
    tools = msgspec.json.decode(kept.read_bytes(), type=tuple[int, ToolList])[1].tools
    return {tool.name: tool.input_schema for tool in tools}


def trial(*words: str) -> int:
    """`bridle mcp test`, signing in where it says so."""
    for attempt in range(MOST_SIGN_INS + 1):
        code = bridle("mcp", "test", "peer", *words)
        if code != NEEDS_SIGN_IN or attempt == MOST_SIGN_INS:
            return code
        if bridle("mcp", "login", "peer", "--no-check") != 0:
            return 1
    return 1


def calls() -> list[tuple[str, dict]]:
    if SCENARIO.startswith("auth/"):
        return [("test-tool", {})]
    if "toolCalls" in CONTEXT:
        return [(one["name"], one["arguments"]) for one in CONTEXT["toolCalls"]]
    return CALLS.get(SCENARIO, [])


def settings(url: str) -> dict:
    server = {"url": url}
    if client_id := CONTEXT.get("client_id"):
        server["oauth_client_id"] = client_id
        server["oauth_secret_env"] = "PEER_SECRET"
        os.environ["PEER_SECRET"] = CONTEXT["client_secret"]
    if SCENARIO == "auth/basic-cimd":
        server["client_document_url"] = "https://conformance-test.local/client-metadata.json"
    return {"mcp_servers": {"peer": server}}


def drive(url: str) -> int:
    config = Path(folders(os.environ).config)
    config.mkdir(parents=True)
    (config / "settings.json").write_text(json.dumps(settings(url)))
    if SCENARIO == "json-schema-2020-12-preservation":
        code = trial()
        schemas = listed()
        focal = next(schema for schema in schemas.values() if "$schema" in schema)
        echo = next(name for name, schema in schemas.items() if "$schema" not in schema)
        return code or trial("--call", echo, "--arguments", json.dumps({"schema": focal}))
    code = 0
    for tool, arguments in calls() or [("", {})]:
        words = ("--call", tool, "--arguments", json.dumps(arguments), "--defaults") if tool else ()
        code = trial(*words) or code
    return code


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, BROWSER=str(BROWSER), LANG="C.UTF-8")
        for name in [name for name in os.environ if name.startswith("XDG_")]:
            del os.environ[name]
        os.chdir(tempfile.mkdtemp(dir=home))
        sys.exit(drive(sys.argv[-1]))
