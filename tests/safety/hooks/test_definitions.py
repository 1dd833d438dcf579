"""What a hook is: its moment, its tools, its words, its deadline, and what its failure means."""

import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.safety.hooks.definitions import (
    EVENTS,
    GATING,
    BadHook,
    HookDefaults,
    argv_of,
    concerns,
    event_named,
    hook_from,
)
from effort import examples
from tables import table


def written(**value: Any) -> dict[str, Any]:
    return {"event": "PreToolUse", "command": "check", **value}


@pytest.mark.requirement("H9.1")
def test_an_entry_of_the_settings_is_a_hook() -> None:
    hook = hook_from(
        written(event="pre_tool_use", command="scripts/check --all", tool="write_*|Bash", timeout_ms=250)
    )
    assert (hook.event, hook.argv, hook.timeout_ms) == ("PreToolUse", ("scripts/check", "--all"), 250)
    assert [hook.concerns(tool) for tool in ("write_file", "bash", "read_file")] == [True, True, False]


def test_events_have_the_names_of_every_habit() -> None:
    for event in EVENTS:
        assert event_named(event) == event
    assert event_named("pre_tool_use") == "PreToolUse"
    assert event_named("post_tool_use") == "PostToolUse"
    assert event_named("user_prompt_submit") == "UserPromptSubmit"
    assert event_named("TurnCompleted") == event_named("stop") == "Stop"
    assert {"PreToolUse", "PostToolUse", "Stop", "TurnFailed"} <= set(EVENTS)
    assert [event_named(text) for text in ("", "_", "PreTooluse", "Prompt")] == [None] * 4


def test_an_event_nobody_knows_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadHook, match=r'event = "PreTool" is not a hook event .SessionStart, .*Compact.'):
        hook_from(written(event="PreTool"))
    with pytest.raises(BadHook, match="for PreToolUse only"):
        hook_from(written(event="Stop", phase="after_permission"))


@pytest.mark.requirement("G44.1")
def test_every_event_has_its_own_deadline_unless_somebody_says_otherwise() -> None:
    deadlines = {event: hook_from(written(event=event)).timeout_ms for event in EVENTS}
    longer = {"PreToolUse": 30_000, "PostToolUse": 30_000, "Compact": 60_000}
    assert deadlines == dict.fromkeys(EVENTS, 5_000) | longer
    defaults = HookDefaults(timeout_ms=700)
    assert hook_from(written(), defaults=defaults).timeout_ms == 700
    assert hook_from(written(timeout_ms=9), defaults=defaults).timeout_ms == 9


@pytest.mark.requirement("C7")
def test_errors_block_at_the_gates_and_warn_elsewhere() -> None:
    for event in EVENTS:
        wanted = "block" if event in GATING else "warn"
        assert hook_from(written(event=event)).on_error == wanted
        assert hook_from(written(event=event, on_error="warn")).on_error == "warn"
    assert {"PreToolUse", "UserPromptSubmit", "PermissionRequest"} == GATING
    open_ones = HookDefaults(failure_policy="open")
    assert hook_from(written(), defaults=open_ones).on_error == "warn"
    assert hook_from(written(on_error="block"), defaults=open_ones).on_error == "block"
    assert hook_from(written(), scope="project", defaults=open_ones).on_error == "block"


@table(
    ("command", "argv"),
    [
        (["a b", "$HOME"], ("a b", "$HOME")),
        ("scripts/check-path", ("scripts/check-path",)),
        ("check 'a b' \"c\"", ("check", "a b", "c")),
        ("check | tee log", ("/bin/sh", "-c", "check | tee log")),
        ("check $HOME", ("/bin/sh", "-c", "check $HOME")),
        ("MODE=1 check", ("/bin/sh", "-c", "MODE=1 check")),
        ("check src/*.py", ("/bin/sh", "-c", "check src/*.py")),
    ],
)
def test_only_what_needs_a_shell_goes_through_one(command: Any, argv: tuple[str, ...]) -> None:
    assert argv_of(command) == argv


@table("command", ["", "  ", [" "], "check 'open"])
def test_a_command_without_words_is_refused(command: Any) -> None:
    with pytest.raises(BadHook, match="command"):
        argv_of(command)


@settings(max_examples=examples(60), deadline=None)
@given(st.text(alphabet="ab -'\"\\=/.:%", min_size=1, max_size=12))
def test_words_are_those_a_shell_would_see(text: str) -> None:
    try:
        argv = argv_of("printf %s| " + text)  # the pipe: a shell reads it
        assert argv[0] == "/bin/sh"
        argv = argv_of("x " + text)
    except BadHook:
        return
    done = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' x {text}"], capture_output=True, check=False, text=True
    )
    assert done.stdout.split("\0")[:-1] == list(argv)


@given(st.text(max_size=12), st.text(max_size=12))
def test_no_pattern_breaks_and_an_alternative_can_only_add(pattern: str, tool: str) -> None:
    assert concerns("", tool)
    if pattern and concerns(pattern, tool):
        assert concerns(f"{pattern}|other", tool)
    assert concerns(f"zzz|{shlex.quote('read_file')}", "read_file")


@pytest.mark.requirement("D10.10")
def test_a_script_is_a_function_of_ones_own_and_nobody_elses() -> None:
    entry = {"event": "PreToolUse", "script": "checks.paths:only_docs", "tool": "edit", "timeout_ms": 70}
    hook = hook_from(entry, modules="/own/hooks")
    assert (hook.shown, hook.argv[-2:], hook.timeout_ms) == (
        "checks.paths:only_docs",
        ("/own/hooks", "checks.paths:only_docs"),
        70,
    )
    with pytest.raises(BadHook, match="for your own hooks only"):
        hook_from(entry, scope="project")
    with pytest.raises(BadHook, match="either a command or a script"):
        hook_from({**entry, "command": "x"})
    with pytest.raises(BadHook, match="either a command or a script"):
        hook_from({"event": "PreToolUse"})


@table("script", ["", "checks", "checks:", ":f", "checks:f()", "-c:f", "a b:c", "a:b:c", "../x:f"])
def test_what_names_no_function_is_refused(script: str) -> None:
    with pytest.raises(BadHook, match="write module:function"):
        hook_from({"event": "Stop", "script": script})
