"""What holds for a session holds for everybody who is sent in it, whatever was allowed."""

import json
from pathlib import Path

import pytest

from bridle.agents.definition import AgentDefinition, AgentDelegation, AgentRule
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol import events as e
from bridle.providers.script import call, say

FREE = AgentDefinition(
    name="free",
    description="Allows itself everything.",
    delegation=AgentDelegation(invocation="allow"),
    rules=(AgentRule(tool="*", verdict="allow"),),
    default_verdict="allow",
    permission_mode="yolo",
)
REFUSED = {
    "a file outside of the folder": (
        call("write_file", path="../outside.txt", content="x"),
        "PathOutsideWorkspace",
    ),
    "a file that holds secrets": (call("write_file", path=".env", content="x"), "SecretFile"),
    "a command that is never run": (call("bash", command="secret-tool lookup a b"), "NeverAllowed"),
    "what a rule of the session denies": (call("bash", command="npm publish"), "RuleDenied"),
    "what a hook blocks": (call("bash", command="echo hooked"), "HookBlocked"),
    "a tool that is not there": (call("no_such_tool"), "UnknownTool"),
}


@pytest.mark.requirement("D19.1")
@pytest.mark.parametrize("what", REFUSED)
async def test_nothing_that_holds_for_the_session_is_passed_by_a_child(tmp_path: Path, what: str) -> None:
    attempt, reason = REFUSED[what]
    (work := tmp_path / "work").mkdir()
    (config := tmp_path / "home/config").mkdir(parents=True)
    hook = {"event": "PreToolUse", "tool": "bash", "command": "grep -q hooked && exit 2 || exit 0"}
    (config / "settings.json").write_text(json.dumps({"hooks": [hook]}))
    sent = call("delegate_agent", agent="free", task="Do it.")
    model = scripted(sent, say("x"), agents={"free": [attempt, say("x")]})
    options = {"mode": "yolo", "yes": True, "deny": ("bash(npm publish*)",), "agent_mode": "multi"}
    places = {"folder": str(work), "home": str(tmp_path / "home")}
    async with harness(model, agents=[FREE], **options, **places) as session:
        await session.ask("go")
        stored = await session.stored()
    results = [one.event for one in stored if isinstance(one.event, e.ToolResult) and one.invocation]
    assert [(one.outcome != "ok", one.reason) for one in results] == [(True, reason)]
    assert not list(work.iterdir())
    assert not (tmp_path / "outside.txt").exists()


async def test_commands_of_a_child_run_in_the_sandbox_of_the_session(tmp_path: Path) -> None:
    sent = call("delegate_agent", agent="free", task="Do it.")
    model = scripted(
        call("bash", command="true"),
        sent,
        say("x"),
        agents={"free": [call("bash", command="true"), say("x")]},
    )
    async with harness(
        model, folder=str(tmp_path), agents=[FREE], agent_mode="multi", mode="yolo"
    ) as session:
        await session.ask("go")
        stored = await session.stored()
    shown = [
        one.event.shown for one in stored if isinstance(one.event, e.ToolResult) and one.event.tool == "bash"
    ]
    assert len(shown) == 2
    assert shown[0].sandbox == shown[1].sandbox
