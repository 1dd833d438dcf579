"""`bridle run`: where the answer goes, what the JSON says, and what the exit code means."""

import json
import os
import subprocess
import sys

import pytest

from bridle.protocol.events import InputAccepted, TurnEnded, text_of
from cli_kit import BRIDLE, Place, kinds

pytestmark = pytest.mark.through_engine

WORK = """\
say Looking first.
call read_file {"path": "notes.txt"}
call bash {"command": "touch marked"}
call write_file {"path": "new.txt", "content": "one line\\n"}
---
say All done.
"""
RESULT_FIELDS = {
    "cost",
    "log_digest",
    "not_used",
    "orphans",
    "schemaVersion", "command", "threadId", "sessionId", "success", "finalResponse", "events", "error",
    "exit_code", "reason", "denied", "changed_files",
}  # fmt: skip


@pytest.mark.requirement("D13.15", "G1.1")
def test_the_answer_is_all_of_stdout_and_the_story_all_of_stderr(place: Place) -> None:
    (place.work / "notes.txt").write_text("a note\n")
    ran = place.bridle("run", "-y", "-m", place.script(WORK), "work")
    assert (ran.code, ran.out) == (0, "[scripted] All done.\n")
    told = "\n".join(ran.story)
    assert "ran      read notes.txt" in told
    assert "ran      touch marked                   exit 0   allowed by --yes" in told
    assert "ran      write new.txt                  +1 -0   allowed by --yes" in told
    assert ran.story[-1].startswith("done ")
    assert ran.story[-1].endswith(" · 2 steps · 2 files changed"), "also what the command made"
    assert (place.work / "new.txt").read_text() == "one line\n"


@pytest.mark.requirement("D13.15")
def test_a_pipe_gets_no_escape_codes_that_we_wrote_and_the_words_as_they_are(place: Place) -> None:
    ran = place.bridle(
        "run",
        "-y",
        "-m",
        place.script('call bash {"command": "printf \'\\\\033[31mred\'"}\n---\nsay täxt ✓\n'),
        "x",
    )
    assert ran.out == "[scripted] täxt ✓\n"
    assert "\x1b" not in ran.err


def test_quiet_leaves_only_the_answer(place: Place) -> None:
    ran = place.bridle("run", "-q", "-m", place.script("say short\n"), "x")
    assert ran == (0, "[scripted] short\n", "")


def test_quiet_still_says_why_there_is_no_answer(place: Place) -> None:
    ran = place.bridle("run", "-q", "-m", place.script("fail bad_credentials\n"), "x")
    assert (ran.code, ran.out) == (4, "")
    (line,) = ran.story
    assert line.startswith("ended ")


def test_a_failed_request_is_reported_once_in_the_closing_line(place: Place) -> None:
    ran = place.bridle("run", "-m", place.script("fail bad_credentials\n"), "x")
    assert ran.code == 4
    closing = ran.story[-1]
    assert closing.startswith("ended ")
    problem = closing.removeprefix("ended").strip().partition(" · ")[0]
    assert ran.err.count(problem) == 1, ran.err


def test_quiet_still_says_that_the_steps_ran_out_and_which_flag_gives_more(place: Place) -> None:
    model = place.script('call ls {}\n---\ncall ls {"path": "."}\n---\nsay never\n')
    ran = place.bridle("run", "-q", "--max-steps", "2", "-m", model, "x")
    assert (ran.code, ran.out) == (1, "")
    (line,) = ran.story
    assert line.startswith("ended    2 steps done and still working. Stopped. Raise --max-steps to go on.")


def test_a_single_step_is_counted_as_one(place: Place) -> None:
    model = place.script("call ls {}\n---\nsay never\n")
    ran = place.bridle("run", "-q", "--max-steps", "1", "-m", model, "x")
    (line,) = ran.story
    assert line.startswith("ended    1 step done and still working. Stopped.")


@pytest.mark.requirement("T18.1", "P11")
def test_json_is_one_object_with_the_whole_run_in_it(place: Place) -> None:
    (place.work / "notes.txt").write_text("a note\n")
    model = place.script(WORK)
    ran = place.bridle("run", "--json", "--allow", "edit", "-m", model, "work")
    result = ran.result
    assert result.keys() == RESULT_FIELDS
    events = result.pop("events")
    assert len(result.pop("log_digest")) == 64
    assert result.pop("cost") == {
        "usd": 0.0,
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "by_model": {},
    }
    assert result.pop("not_used") == []
    assert result.pop("orphans") == []
    assert result == {
        "schemaVersion": 1,
        "command": "run",
        "threadId": result["sessionId"],
        "sessionId": place.only_session(),
        "success": True,
        "finalResponse": "[scripted] All done.",
        "error": None,
        "exit_code": 0,
        "reason": None,
        "denied": [{"tool": "bash", "call": "touch marked", "reason": "NoApprover"}],
        "changed_files": ["new.txt"],
    }
    assert ran.code == 0
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["kind"], events[-1]["kind"]) == ("SessionCreated", "TurnEnded")


@pytest.mark.requirement("T18.2", "P11")
def test_stream_json_is_one_object_a_line_and_ends_with_the_result(place: Place) -> None:
    (place.work / "notes.txt").write_text("a note\n")
    ran = place.bridle("run", "--stream-json", "-y", "-m", place.script(WORK), "work")
    *lines, last = ran.stream
    session = place.only_session()
    for line in lines:
        assert line.keys() == {"schemaVersion", "command", "threadId", "eventType", "event"}
        assert (line["schemaVersion"], line["command"], line["threadId"]) == (1, "run", session)
        assert line["eventType"] == line["event"]["kind"]
    assert last.keys() == (RESULT_FIELDS - {"events"}) | {"eventType"}
    assert (last["eventType"], last["exit_code"], ran.code) == ("run.result", 0, 0)
    assert last["finalResponse"] == "[scripted] All done."
    stored = [envelope.id for envelope in place.events(session)]
    streamed = [line["event"]["id"] for line in lines if "id" in line["event"]]
    assert streamed == stored[: len(streamed)]


@pytest.mark.in_process("an engine leaves files of its own in the home that is looked at")
@pytest.mark.requirement("T18.2", "C22")
def test_json_and_stream_json_together_are_a_mistake(place: Place) -> None:
    ran = place.bridle("run", "--json", "--stream-json", "-m", "demo", "x")
    assert (ran.code, ran.result["exit_code"], ran.result["reason"]) == (2, 2, "Usage")
    assert ran.story == ["--json and --stream-json exclude each other. Choose one"]
    assert os.listdir(place.home) == []


@pytest.mark.requirement("C22", "T18.1", "P11")
@pytest.mark.parametrize(
    ("script", "options", "code", "reason"),
    [
        ("say hi\n", (), 0, None),
        ('call read_file {"path": "x"}\n---\nsay done\n', ("--max-steps", "1"), 1, "StepLimit"),
        ("fail garbage\n", (), 5, "BadStream"),
        ("fail bad_credentials\n", (), 4, "BadCredentials"),
        ("bogus\n", (), 2, "BadScript"),
        ("say hi\n", ("-r", "nowhere"), 2, "UnknownSession"),
        ("say hi\n", ("-c",), 2, "NoSessionHere"),
        ("say hi\n", ("-C", "missing"), 2, "UnreadableFolder"),
        ("say hi\n", ("-m", "nobody:x"), 2, "UnknownProvider"),
        ("say hi\n", ("-m", "demo:missing.script"), 2, "Usage"),
        ("say hi\n", ("-m", ""), 4, "NoModel"),
        ("say hi\n", ("--allow", "bash("), 2, "Usage"),
    ],
    ids=lambda value: str(value) if isinstance(value, int | str | None) and "\n" not in str(value) else "",
)
def test_the_exit_code_follows_from_the_reason_and_json_always_says_both(
    place: Place, script: str, options: tuple[str, ...], code: int, reason: str | None
) -> None:
    ran = place.bridle("run", "--json", "-m", place.script(script), *options, "x")
    result = ran.result
    assert result.keys() == RESULT_FIELDS
    assert (ran.code, result["exit_code"], result["reason"]) == (code, code, reason)
    assert result["success"] is (code == 0)
    assert (result["error"] or {}).get("name") == reason
    assert "Traceback" not in ran.err


@pytest.mark.requirement("C22")
def test_stream_json_tells_a_failure_on_its_last_line_too(place: Place) -> None:
    ran = place.bridle("run", "--stream-json", "-m", "nobody:x", "x")
    (last,) = ran.stream
    assert (last["eventType"], last["exit_code"], ran.code) == ("run.result", 2, 2)


def test_a_script_that_cannot_be_read_is_named_with_its_line(place: Place) -> None:
    ran = place.bridle("run", "-m", place.script("say one\n---\nsya two\n", "mine.script"), "x")
    assert (ran.code, ran.out) == (2, "")
    assert ran.story == ['mine.script, line 3: there is no statement "sya"; the nearest is say.']
    assert place.sessions() == []


@pytest.mark.in_process("an engine leaves files of its own in the home that is looked at")
@pytest.mark.requirement("C22")
def test_without_a_model_a_run_says_where_it_looked_and_never_plays_the_demo(place: Place) -> None:
    ran = place.bridle("run", "x", env={"BRIDLE_MODEL": ""})
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith("bridle: no model is configured and no key was found.\n")
    assert "BRIDLE_MODEL" in ran.err
    assert os.listdir(place.home) == []


def test_the_model_may_come_from_the_environment_and_an_option_wins(place: Place) -> None:
    named = place.script("say from the variable\n")
    given = place.script("say from the option\n", "other.script")
    assert "variable" in place.bridle("run", "x", env={"BRIDLE_MODEL": named}).out
    assert "option" in place.bridle("run", "-m", given, "x", env={"BRIDLE_MODEL": named}).out


# The prompt


@pytest.mark.requirement("D13.4")
@pytest.mark.parametrize(
    ("words", "stdin", "heard"),
    [
        (("fix", "the", "test"), "", "fix the test"),
        ((), "  from a pipe\n", "from a pipe"),
        (("-",), "grün\nand more\n", "grün\nand more"),
        (("fix it",), "the log", "fix it\n\n```\nthe log\n```"),
        (("--", "-c is a flag"), "", "-c is a flag"),
    ],
)
def test_the_prompt_is_the_words_or_else_what_is_on_stdin(
    place: Place, words: tuple[str, ...], stdin: str, heard: str
) -> None:
    ran = place.bridle("run", "--json", "-m", "demo", *words, stdin=stdin)
    inputs = [event for event in ran.result["events"] if event["kind"] == "InputAccepted"]
    assert [event["payload"]["content"] for event in inputs] == [[{"type": "text", "text": heard}]]


@pytest.mark.requirement("D13.4")
def test_bytes_that_are_no_text_are_replaced_wherever_they_are_typed(place: Place) -> None:
    no_text = os.fsdecode(b"a \xff b")
    ran = place.bridle("run", "-q", "-m", "demo", no_text)
    assert (ran.code, ran.err) == (0, "")
    assert place.sessions()[0].title == "a \ufffd b"
    nowhere = os.fsdecode(b"nowhere \xff")
    for words in (("-m", f"demo:{nowhere}", "x"), ("-r", nowhere, "x"), ("-m", "demo", "-C", nowhere, "x")):
        refused = place.bridle("run", "--json", *words)
        assert (refused.code, refused.result["exit_code"]) == (2, 2)
        assert "nowhere \ufffd" in refused.story[0]


@pytest.mark.in_process("an engine leaves files of its own in the home that is looked at")
@pytest.mark.requirement("D13.4", "C22")
@pytest.mark.parametrize(
    ("words", "stdin"), [((), ""), (("-",), " \n\t"), (("",), ""), (("  ",), ""), (("-",), "x" * 2_100_000)]
)
def test_an_impossible_prompt_is_refused_before_anything_is_made(
    place: Place, words: tuple[str, ...], stdin: str
) -> None:
    ran = place.bridle("run", "-m", "demo", *words, stdin=stdin)
    assert (ran.code, ran.out, len(ran.story)) == (2, "", 1)
    assert os.listdir(place.home) == []


@pytest.mark.requirement("D13.4")
@pytest.mark.parametrize(("words", "code"), [((), 2), (("hi",), 0)])
def test_a_closed_stdin_is_an_empty_one(place: Place, words: tuple[str, ...], code: int) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *BRIDLE, "run", "-m", "demo", *words],
        env=place.environment(),
        cwd=place.work,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


# Folders that cannot be used


@pytest.mark.requirement("C22")
@pytest.mark.parametrize("variable", ["HOME", "BRIDLE_HOME", "XDG_DATA_HOME"])
def test_a_home_that_cannot_be_written_is_named_and_nothing_runs(place: Place, variable: str) -> None:
    file = place.home / "a-file"
    file.write_text("precious\n")
    model = place.script('call bash {"command": "touch ran"}\n---\nsay done\n')
    ran = place.bridle("run", "-y", "-m", model, "x", env={variable: str(file / "below")})
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.story
    assert line.startswith(f"Cannot write {file}")
    assert line.endswith("nothing was run.")
    assert file.read_text() == "precious\n"
    assert not (place.work / "ran").exists()


@pytest.mark.requirement("C22")
@pytest.mark.parametrize("folder", ["missing", "a-file"])
def test_a_folder_that_cannot_be_worked_in_is_named(place: Place, folder: str) -> None:
    (place.work / "a-file").write_text("")
    ran = place.bridle("run", "-m", "demo", "-C", folder, "x")
    assert ran.code == 2
    (line,) = ran.story
    assert line.startswith(f"{place.work / folder} is not a folder Bridle can work in (")
    assert place.sessions() == []


@pytest.mark.requirement("C22")
@pytest.mark.skipif(sys.platform == "darwin", reason="such a folder cannot be made there")
def test_a_folder_whose_name_is_no_text_is_refused_in_one_sentence(place: Place) -> None:
    folder = place.work / os.fsdecode(b"fo\xfflder")
    folder.mkdir()
    ran = place.bridle("run", "--json", "-m", "demo", "x", cwd=folder)
    assert (ran.code, ran.result["exit_code"], len(ran.story)) == (2, 2, 1)


def test_a_run_works_in_the_folder_it_is_told_to(place: Place) -> None:
    (place.work / "inside").mkdir()
    model = place.script('call bash {"command": "pwd > where"}\n---\nsay done\n')
    assert place.bridle("run", "-y", "-C", "inside", "-m", model, "x").code == 0
    assert (place.work / "inside/where").read_text() == f"{(place.work / 'inside').resolve()}\n"


# Readers that go away


def many_events() -> str:
    steps = (
        f'say some words\ncall read_file {{"path": "it.script", "first_line": {n}}}\n---\n'
        for n in range(1, 21)
    )
    return (
        "".join(steps) + "say more\nwait 1\n" * 60
    )  # a reader that was slow to go is noticed by the next words


@pytest.mark.requirement("C22", "T18.2")
@pytest.mark.parametrize("lines", [0, 1], ids=["before the first line", "after the first line"])
def test_when_the_reader_of_a_stream_goes_away_the_run_ends_quietly_and_the_session_is_whole(
    place: Place, lines: int
) -> None:
    model = place.script(many_events())
    with place.started("run", "--stream-json", "-m", model, "x") as running:
        if lines:
            running.until("SessionCreated")
        running.stop_reading()
        ran = running.end()
    assert ran.code == 141
    assert all("Traceback" not in line for line in ran.story)
    session = place.only_session()
    events = place.events(session)
    assert kinds(events)[0] == "SessionCreated"
    assert [event.event.stop for event in events if isinstance(event.event, TurnEnded)] == ["cancelled"]
    place.verify(session)


@pytest.mark.requirement("C22")
def test_an_answer_nobody_reads_is_still_in_the_session(place: Place) -> None:
    with place.started("run", "-m", place.script("say the answer\n"), "the question") as running:
        running.stop_reading()
        ran = running.end()
    assert ran.code == 141
    assert ran.story[-1].startswith("done ")
    session = place.only_session()
    events = place.events(session)
    asked = [text_of(event.event.content) for event in events if isinstance(event.event, InputAccepted)]
    assert asked == ["the question"]
    assert [event.event.stop for event in events if isinstance(event.event, TurnEnded)] == ["end_turn"]
    place.verify(session)


@pytest.mark.requirement("D13.15")
def test_a_character_that_the_output_cannot_hold_does_not_cost_the_answer(place: Place) -> None:
    ran = place.bridle("run", "-m", place.script("say naïve ✓\n"), "x", env={"PYTHONIOENCODING": "ascii"})
    assert ran.code == 0
    assert ran.out.startswith("[scripted] na")


@pytest.mark.requirement("D13.15")
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_run_without_stdout_or_stderr_does_its_work(place: Place, closed: str) -> None:
    model = place.script('call bash {"command": "touch ran"}\n---\nsay done\n')
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *BRIDLE, "run", "-y", "-m", model, "x"],
        env=place.environment(),
        cwd=place.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert (place.work / "ran").exists()
    place.verify(place.only_session())


@pytest.mark.requirement("D6.7")
def test_json_events_say_what_each_call_did_as_data(place: Place) -> None:
    (place.work / "a.txt").write_text("one\n")
    (place.work / "b.txt").write_text("two\n")
    patch = (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n"
    )
    given = {
        "apply_patch": {"patch": patch},
        "bash": {"command": "printf 'x\\ny'; exit 4"},
        "read_file": {"path": "a.txt"},
        "grep": {"pattern": "1", "path": "a.txt"},
    }
    calls = "---\n".join(f"call {tool} {json.dumps(words)}\n" for tool, words in given.items())
    ran = place.bridle("run", "--json", "-y", "-s", "off", "-m", place.script(f"{calls}---\nsay done\n"), "x")
    results = [event["payload"] for event in ran.result["events"] if event["kind"] == "ToolResult"]
    changed = {"path": "a.txt", "diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n"}
    gone = {"path": "b.txt", "kind": "delete", "diff": "--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n"}
    assert [result.get("shown") for result in results] == [
        {"as": "edit", "files": [{**changed, "added": 1, "removed": 1}, {**gone, "removed": 1}]},
        {"as": "command", "exit_code": 4, "lines": 2, "sandbox": "off"},
        {"as": "read", "last_line": 1},
        {"as": "search", "found": 1, "files": 1},
    ]
    assert {key for result in results for key in result.get("metadata", {})} == {"seen"}
    assert "2 files changed" in ran.err


def test_files_that_commands_changed_are_changed_files_too(place: Place) -> None:
    (place.work / "old.txt").write_text("old")
    (place.work / "gone.txt").write_text("gone")
    command = "mkdir sub; echo 1 > sub/new.txt; echo 2 >> old.txt; rm gone.txt"
    model = place.script(
        f"call bash\n    command: {command}\n---\ncall write_file\n    path: b.txt\n    content: x\n---\nsay done\n"
    )
    ran = place.bridle("run", "--json", "-y", "-s", "off", "-m", model, "x")
    assert ran.code == 0, ran.err
    assert sorted(ran.result["changed_files"]) == ["b.txt", "gone.txt", "old.txt", "sub/new.txt"]
    waits = "say y\n---\n" * 3
    more = place.script(f"{waits}call bash\n    command: echo 3 > c.txt\n---\nsay done\n", "more")
    again = place.bridle("run", "--stream-json", "-c", "-y", "-s", "off", "-m", more, "y")
    assert json.loads(again.out.splitlines()[-1])["changed_files"] == ["c.txt"], "those of this run only"
