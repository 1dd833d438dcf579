"""The words for what happens: ran, not run, stopped, unknown, and nothing a terminal would obey."""

import re
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.terminal_text import hidden_characters
from bridle.clients.interaction.render.call_text import COMMAND_WIDTH, describe_call
from bridle.protocol import events as e
from bridle.protocol.display_values import (
    AnyShown,
    EditedFile,
    ShownCommand,
    ShownEdit,
    ShownJudgement,
    ShownWait,
)
from rows_kit import told
from tables import table

CALL = "call_1"
HOSTILE = "rm\x1b[2K\x1b[1Aecho\u202e fine\u200b"
RAN_WORDS = re.compile(r"exit \d|\d s$|[+]\d+ -\d+|^ran ")


def call_lines(
    *events: e.AnyEvent, tool: str = "bash", given: dict[str, Any] | None = None, **options: Any
) -> list[str]:
    """The lines for a call and what became of it."""
    call = {"command": "npm test"} if given is None else given
    return told(e.ToolCallRequested(call_id=CALL, tool=tool, input=call, step=1), *events, **options)


def result(outcome: e.Outcome, **fields: Any) -> e.ToolResult:
    values = {"call_id": CALL, "tool": "bash", "content": "some output\nand more", **fields}
    return e.ToolResult(outcome=outcome, **values)


def decided(verdict: Any, by: str, **fields: Any) -> e.PermissionDecided:
    return e.PermissionDecided(call_id=CALL, tool="bash", verdict=verdict, decided_by=by, **fields)


@table(
    ("event", "line"),
    [
        (result("ok", shown=ShownCommand(exit_code=0)), "ran      npm test                       exit 0"),
        (
            result("ok", shown=ShownCommand(exit_code=1), duration_ms=4_210),
            "ran      npm test                       exit 1   4.2 s",
        ),
        (
            result("ok", shown=ShownCommand(exit_code=1, blocked=True)),
            "ran      npm test                       exit 1   the sandbox blocked something",
        ),
        (
            result("ok", shown=ShownCommand(exit_code=0), duration_ms=99),
            "ran      npm test                       exit 0",
        ),
        (result("error"), "not run  npm test                       some output"),
        (
            result("timeout", reason="ToolTimeout", duration_ms=120_000),
            "ran      npm test                       stopped: it took too long   120.0 s",
        ),
        (
            result("cancelled", duration_ms=900),
            "not run  npm test                       stopped before it began",
        ),
        (result("unknown"), "unknown  npm test                       Bridle stopped while it ran"),
        (
            result("denied", reason="NoApprover", duration_ms=5),
            "not run  npm test                       nobody is here to ask. Let it: -y, or --allow 'bash(npm test)'",
        ),
        (
            result("denied", reason="PermissionTimeout", shown=ShownWait(waited_s=60.0)),
            "not run  npm test                       nobody answered in 60 s (no one was attached)",
        ),
        (
            result(
                "blocked",
                reason="HookBlocked",
                content="bash was not run: hook scripts/check-path blocked it: generated file",
                evidence=e.Evidence(source="hook", rule="scripts/check-path", matched="generated file"),
            ),
            "not run  npm test                       hook scripts/check-path: generated file",
        ),
        (
            result("blocked", reason="NeverAllowed", content="never allowed: link-local address"),
            "not run  npm test                       never allowed: link-local address",
        ),
        (result("denied", reason="PermissionDenied"), "not run  npm test                       you said no"),
        (
            result("denied", reason="ModeDenied", content="Mode safe does not allow it.\nmore"),
            "not run  npm test                       Mode safe does not allow it.",
        ),
        (
            result("blocked", reason="PathOutsideWorkspace", content="/etc is outside."),
            "not run  npm test                       /etc is outside.",
        ),
        (
            result("error", reason="InvalidInput", content="The input is not valid."),
            "not run  npm test                       The input is not valid.",
        ),
        (
            result(
                "error", reason="CannotStart", content="The command could not be started: no such folder."
            ),
            "not run  npm test                       The command could not be started: no such folder.",
        ),
        (
            result("error", reason="UnknownTool", content="There is no tool."),
            "not run  npm test                       There is no tool.",
        ),
    ],
)
def test_every_outcome_has_its_line(event: e.ToolResult, line: str) -> None:
    assert call_lines(event) == [line]


@table(
    ("reader", "name", "who"),
    [
        ("", "", "you"),
        ("Eve", "", "the terminal"),
        ("Eve", "Ana", "Ana"),
        ("Ana", "Ana", "you"),
        ("", "Ana", "Ana"),
    ],
)
def test_who_answered_is_named_to_everybody_else(reader: str, name: str, who: str) -> None:
    yes = decided("allow", "user", answered_by="cli_1", answered_name=name)
    no = decided("deny", "user", answered_by="cli_1", answered_name=name, note="later")
    assert call_lines(yes, result("ok"), reader=reader)[-1].endswith(f"allowed by {who}")
    (denied,) = call_lines(no, result("denied", reason="PermissionDenied"), reader=reader)
    assert denied.endswith(f'{who} said no: "later"')


@table(
    ("ended", "line"),
    [
        (result("cancelled"), "stopped  npm test"),
        (result("error"), "ran      npm test                       some output"),
        (
            result("error", content=f"\n{'long ' * 30}\nmore"),
            f"ran      npm test                       {'long ' * 23}long…",
        ),
        (
            result("error", reason="TextNotFound", content="a.py was not changed: …"),
            "not run  npm test                       a.py was not changed: …",
        ),
    ],
)
def test_a_call_that_had_begun_ran_unless_it_changed_nothing(ended: e.ToolResult, line: str) -> None:
    asked = e.ToolCallRequested(call_id="call_1", tool="bash", input={"command": "npm test"}, step=1)
    begun = e.ToolCallStarted(
        call_id="call_1", tool="bash", input={"command": "npm test"}, mutating=True, input_sha256=""
    )
    assert told(asked, begun, ended) == [line]


def test_a_command_in_the_background_is_told_when_it_starts_and_when_it_ends() -> None:
    started = e.BackgroundStarted(call_id=CALL, command="npm start")
    returned = result("ok", shown=ShownCommand(sandbox="bubblewrap"))
    allowed = decided("allow", "yes")
    for outcome, word in (("ok", "ended  "), ("cancelled", "stopped")):
        ended = e.BackgroundEnded(call_id=CALL, outcome=outcome)
        assert call_lines(allowed, started, returned, ended) == [
            "started  npm start (in the background)  allowed by --yes",
            f"{word}  npm start (in the background)",
        ]


@table(
    ("given", "words"),
    [
        ({"job": "job1"}, "look at job1"),
        ({"job": "job1", "stop": True}, "stop job1"),
        ({"command": "npm test"}, "npm test"),
        ({}, "bash"),
    ],
)
def test_a_call_of_bash_says_what_it_is_for(given: dict[str, Any], words: str) -> None:
    assert describe_call("bash", given) == words


def test_hooks_that_fail_are_told_in_words() -> None:
    late = e.HookTimeout(event="PreToolUse", command="scripts/check", timeout_ms=5000)
    broken = e.HookError(event="Stop", command="scripts/bell", exit_code=1, message="exit code 1")
    assert told(late) == ["Hook 'PreToolUse' command 'scripts/check' exceeded its 5s deadline. Killed."]
    assert told(broken) == ["Hook scripts/bell failed at Stop: exit code 1"]


@table(
    ("decision", "end"),
    [
        (decided("allow", "yes"), "allowed by --yes"),
        (
            decided("allow", "rule", rule="bash(npm test*)", origin="--allow"),
            "allowed by --allow 'bash(npm test*)'",
        ),
        (decided("allow", "person", answered_by="cli_1"), "allowed by you"),
        (decided("allow", "mode", rule="auto"), "exit 0"),
    ],
)
def test_a_call_that_ran_says_who_allowed_it(decision: e.PermissionDecided, end: str) -> None:
    (line,) = call_lines(decision, result("ok", shown=ShownCommand(exit_code=0)))
    assert line.startswith("ran      npm test                       exit 0")
    assert line.endswith(end)


@table(
    ("decision", "reason", "why"),
    [
        (
            decided("deny", "rule", rule="bash(npm*)", origin="user config, line 12"),
            "RuleDenied",
            'rule deny "npm*" (user config, line 12)',
        ),
        (decided("deny", "person", note="use yarn"), "PermissionDenied", 'you said no: "use yarn"'),
    ],
)
def test_a_call_that_was_refused_says_by_what(decision: e.PermissionDecided, reason: str, why: str) -> None:
    assert call_lines(decision, result("denied", reason=reason)) == [
        f"not run  npm test                       {why}"
    ]


@given(
    outcome=st.sampled_from(get_args(e.Outcome)),
    reason=st.sampled_from([None, "NoApprover", "RuleDenied", "InvalidInput", "UnknownTool", "CannotStart"]),
    shown=st.none() | st.from_type(AnyShown),
    duration_ms=st.none() | st.integers(0, 10**7),
)
def test_a_call_that_did_not_run_never_looks_as_if_it_ran(
    outcome: e.Outcome, reason: str | None, shown: AnyShown | None, duration_ms: int | None
) -> None:
    (line,) = call_lines(
        result(outcome, reason=reason, shown=shown, duration_ms=duration_ms, content="words")
    )
    if outcome not in ("ok", "error", "timeout") or line.startswith("not run"):
        assert RAN_WORDS.search(line) is None


def test_a_change_shows_its_size_and_its_diff_where_wanted() -> None:
    diff = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old\n+new\x1b[31m\n"
    changed = result(
        "ok",
        tool="write_file",
        shown=ShownEdit(files=(EditedFile(path="src/a.txt", added=3, removed=1, diff=diff),)),
    )
    assert call_lines(changed, tool="write_file", given={"path": "src/a.txt"}) == [
        "ran      write src/a.txt                +3 -1"
    ]
    _, *shown = call_lines(changed, tool="write_file", given={"path": "src/a.txt"}, also={"edit"})
    assert shown == ["    1  - old", "    1  + new⟨ESC⟩[31m"]


def test_a_changed_line_that_looks_like_a_heading_of_a_diff_is_shown() -> None:
    sql = "--- a.sql\n+++ a.sql\n@@ -1,2 +1,2 @@\n--- a comment\n+++ one\n same\n"
    files = (
        EditedFile(path="a.sql", diff=sql),
        EditedFile(path="b", diff="--- b\n+++ b\n@@ -1 +0,0 @@\n--- gone\n"),
    )
    _, *shown = call_lines(result("ok", tool="apply_patch", shown=ShownEdit(files=files)), also={"edit"})
    assert shown == [
        "a.sql   +0 -0",
        "    1  - -- a comment",
        "    1  + ++ one",
        "    2    same",
        "b   +0 -0",
        "    1  - -- gone",
    ]


def test_files_whose_diff_has_no_room_are_counted_and_what_cannot_be_compared_is_not() -> None:
    shown = ShownEdit(
        files=(
            EditedFile(path="a", added=1, diff="--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+a\n"),
            EditedFile(path="b", added=2, removed=5, cut=True),
            EditedFile(path="c", added=1, removed=2, cut=True),
        )
    )
    patch = result("ok", tool="apply_patch", shown=shown)
    assert call_lines(patch, tool="apply_patch", also={"edit"}) == [
        "ran      patch                          +4 -7",
        "a   +1 -0",
        "    1  + a",
        "b   +2 -5",
        "c   +1 -2",
        "    … 2 more files, too long to keep",
    ]
    replaced = ShownEdit(files=(EditedFile(path="a.bin", added=3, removed=None),))
    assert call_lines(result("ok", tool="write_file", shown=replaced), tool="write_file") == [
        "ran      write                          +3"
    ]


def test_what_a_person_said_of_a_call_nobody_saw_end_is_told_and_nobodys_word_is_not() -> None:
    judgement = ShownJudgement(judgement="did not happen", by="cli_1")
    said = result("cancelled", reason="JudgedNotHappened", shown=judgement)
    assert call_lines(said) == ["judged   npm test                       you said: it did not"]
    nobodys = result("unknown", reason="OutcomeUnknown", shown=ShownJudgement(judgement="unknown"))
    assert call_lines(nobodys) == ["unknown  npm test                       Bridle stopped while it ran"]


def test_words_before_calls_are_told_where_wanted_and_a_failed_attempt_takes_its_words_back() -> None:
    def step(*events: e.AnyEvent, words: bool) -> list[str]:
        return told(*events, also={"said"} if words else ())

    calls = (e.RequestedCall(call_id=CALL, wire_id="w", tool="bash", input={}),)
    started = e.StepStarted(step=1, provider="p", model="m")
    failed = e.StepFailed(
        step=1, attempt=1, reason="Overloaded", message="It is overloaded.", retry_in_ms=1500
    )
    with_calls = e.StepEnded(step=1, stop="tool_use", text_sha256="", calls=calls)
    events = (started, e.TextDelta(text="lost"), failed, e.TextDelta(text="kept "), e.TextDelta(text="words"))
    again = "It is overloaded. Trying again in 1.5 s."
    assert step(*events, with_calls, words=True) == [again, "kept words"]
    assert step(*events, with_calls, words=False) == [again]
    assert step(*events, e.StepEnded(step=1, stop="end_turn", text_sha256=""), words=True) == [again]


@table(
    ("reason", "message", "line"),
    [
        (
            "RateLimited",
            "Provider work rate-limited the request. Retrying in 20s… (Ctrl-C to cancel, /model to switch).",
            "work asks us to wait 20 s (rate limit, try 2 of 5). Ctrl-C stops.",
        ),
        (
            "StreamSilent",
            "No data for 60 s; the request was ended and sent again (try 2 of 5). Nothing partial was kept.",
            "No data for 60 s; the request was ended and sent again (try 2 of 5). Nothing partial was kept.",
        ),
        (
            "Overloaded",
            "work is overloaded (503).",
            "work is overloaded (503). Trying again in 20 s (try 2 of 5).",
        ),
    ],
)
def test_a_failure_that_is_not_the_end_says_what_comes_next(reason: str, message: str, line: str) -> None:
    failed = e.StepFailed(step=1, attempt=1, reason=reason, message=message, retry_in_ms=20_000, attempts=5)
    over = e.StepFailed(step=1, attempt=5, reason=reason, message="It is over.", attempts=5)
    assert told(e.StepStarted(step=1, provider="work", model="m"), failed, over) == [line, "It is over."]


@table(
    "events",
    [
        (result("ok", shown=ShownCommand(exit_code=0)),),
        (result("error", content=HOSTILE),),
        (result("blocked", content=HOSTILE),),
        (decided("deny", "rule", rule=HOSTILE, origin="x"), result("denied", reason="RuleDenied")),
        (decided("allow", "rule", rule=HOSTILE, origin="x"), result("ok")),
        (decided("deny", "person", note=HOSTILE), result("denied", reason="PermissionDenied")),
        (e.Notice(reason="x", message=HOSTILE),),
        (e.Degraded(what="x", reason="x", message=HOSTILE),),
        (e.Error(reason="x", message=HOSTILE),),
        (e.StepFailed(step=1, attempt=1, reason="x", message=HOSTILE),),
        (e.HookError(event="x", command=HOSTILE, exit_code=1, message=HOSTILE),),
        (e.BackgroundStarted(call_id=CALL, command=HOSTILE),),
    ],
)
def test_nothing_in_a_line_is_obeyed_by_a_terminal_or_hidden_by_it(events: tuple[e.AnyEvent, ...]) -> None:
    lines = call_lines(*events, given={"command": HOSTILE})
    assert lines
    assert [hidden_characters(line) for line in lines] == [[]] * len(lines)


@given(st.text(), st.sampled_from(["bash", "read_file", "write_file", "edit_file", "other"]))
def test_a_call_in_a_few_words_is_one_short_visible_line(text: str, tool: str) -> None:
    for given_input in ({"command": text, "path": text}, {"path": text}, {"path": 7}, {}):
        words = describe_call(tool, given_input)
        assert len(words) <= COMMAND_WIDTH + len("read_file ")
        assert "\n" not in words
        assert hidden_characters(words) == []


def test_a_gap_and_a_stop_are_said() -> None:
    gap, stop = e.StreamGap(first=3, last=7, reason="slow"), e.Cancelled(by="cli_1")
    assert told(gap, stop) == ["5 events were skipped here", "stopped"]
