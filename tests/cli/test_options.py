"""Options of `run`: limits, forms, images, folders, and stdin that never makes it wait for ever."""

import asyncio
import json
import os
import shutil
import subprocess

import pytest

from bridle.conformance.servers import ModelServer
from bridle.protocol.events import InputAccepted
from bridle.protocol.messages import ImageBlock, TextBlock
from bridle.providers.script import say
from cli_kit import BRIDLE, Place

pytestmark = pytest.mark.through_engine(quick=False)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def schema(place: Place, text: str) -> str:
    (place.work / "schema.json").write_text(text)
    return "schema.json"


def test_a_deadline_ends_the_run_with_its_own_code_and_reason(place: Place) -> None:
    model = place.script('call bash {"command": "sleep 600"}\n---\nsay never\n')
    ran = place.bridle("run", "--json", "-y", "--timeout", "0.5", "-m", model, "x")
    assert (ran.code, ran.result["exit_code"], ran.result["reason"]) == (124, 124, "DeadlineReached")
    assert ran.result["error"]["message"] == "The run did not finish within 0.5 s."


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf"])
def test_a_deadline_that_is_no_time_is_a_usage_error(place: Place, value: str) -> None:
    assert place.bridle("run", f"--timeout={value}", "-m", "demo", "x").code == 2


def test_an_answer_that_does_not_fit_its_schema_is_a_failure(place: Place) -> None:
    wanted = schema(place, '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}')
    model = place.script('say {"n": "three"}\n')
    ran = place.bridle("run", "--json", "--output-schema", wanted, "-m", model, "x")
    assert (ran.code, ran.result["reason"]) == (1, "SchemaMismatch")
    assert "does not fit the schema" in ran.result["error"]["message"]


@pytest.mark.parametrize("text", ["{", "[]", '{"type": 7}'])
def test_a_schema_that_is_none_is_named_before_anything_runs(place: Place, text: str) -> None:
    ran = place.bridle("run", "--output-schema", schema(place, text), "-m", "demo", "x")
    assert (ran.code, len(ran.story)) == (2, 1)
    assert "schema.json" in ran.story[0]
    assert place.sessions() == []


def test_images_follow_the_words_in_the_order_of_their_flags(place: Place) -> None:
    (place.work / "dot.png").write_bytes(PIXEL)
    ran = place.bridle("run", "-m", "demo", "-i", "dot.png", "-i", "https://x.example/y.png", "look")
    assert ran.code == 0
    events = [envelope.event for envelope in place.events(place.only_session())]
    (accepted,) = [event for event in events if isinstance(event, InputAccepted)]
    words, file, address = accepted.content
    assert words == TextBlock(text="look")
    assert file.url.startswith("data:image/png;base64,iVBOR")
    assert address == ImageBlock(url="https://x.example/y.png")


@pytest.mark.parametrize("made", [None, b"not an image", "folder"])
def test_an_image_that_cannot_be_sent_is_named(place: Place, made: bytes | str | None) -> None:
    path = place.work / "x.png"
    if made == "folder":
        path.mkdir()
    elif isinstance(made, bytes):
        path.write_bytes(made)
    ran = place.bridle("run", "-m", "demo", "-i", "x.png", "look")
    assert (ran.code, len(ran.story)) == (2, 1)
    assert "x.png" in ran.story[0]


def test_the_prompt_may_come_from_a_file_and_a_folder_is_none(place: Place) -> None:
    (place.work / "todo.txt").write_text("from a file\n")
    assert place.bridle("run", "-m", "demo", "--prompt-file", "todo.txt").code == 0
    assert [row.title for row in place.sessions()] == ["from a file"]
    refused = place.bridle("run", "-m", "demo", "--prompt-file", ".")
    assert (refused.code, len(refused.story)) == (2, 1)


def test_the_answer_can_be_written_to_a_file_too(place: Place) -> None:
    model = place.script("say done\n")
    assert place.bridle("run", "-m", model, "-o", "answer.txt", "x").code == 0
    assert (place.work / "answer.txt").read_text() == "[scripted] done\n"
    refused = place.bridle("run", "-m", model, "-o", "no/such/folder", "x")
    assert refused.code == 2


def test_a_dry_run_changes_nothing(place: Place) -> None:
    model = place.script('call write_file {"path": "a", "content": "x"}\n---\nsay done\n')
    ran = place.bridle("run", "--dry-run", "--mode=auto", "-m", model, "x")
    assert ran.code == 0
    assert not (place.work / "a").exists()
    assert any(line.startswith("not run  write a") for line in ran.story)


def test_a_question_nobody_can_answer_can_end_the_run(place: Place) -> None:
    model = place.script('call bash {"command": "touch a"}\n---\nsay never\n')
    ran = place.bridle("run", "--json", "--on-ask", "fail", "-m", model, "x")
    assert (ran.code, ran.result["reason"]) == (3, "NoApprover")
    assert ran.result["error"]["message"] == "Nobody is here to answer for bash, so it was not run."


@pytest.mark.requirement("D13.8")
def test_model_limit_folder_and_settings_have_their_options(place: Place) -> None:
    below = place.work / "below"
    below.mkdir()
    (place.work / "given.toml").write_text('mode = "auto"\n', encoding="utf-8")
    (below / "it.script").write_text(
        'call bash {"command": "pwd > where"}\n---\nsay done\n', encoding="utf-8"
    )
    script = f"demo:{below / 'it.script'}"
    words = (
        "run",
        "--json",
        "--model",
        script,
        "--max-turns",
        "1",
        "--cwd",
        "below",
        "--config",
        str(place.work / "given.toml"),
        "x",
    )
    ran = place.bridle(*words)
    assert (ran.code, ran.result["reason"]) == (1, "StepLimit")
    assert (below / "where").read_text(encoding="utf-8") == f"{below.resolve()}\n"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_run_says_how_much_network_its_commands_have(place: Place) -> None:
    model = place.script("say one\n")
    ran = place.bridle("run", "--network", "filtered", "--allow-host", "example.org", "-m", model, "x")
    assert " · network filtered (1 host) · " in ran.err
    assert " · network off · " in place.bridle("run", "--network", "deny", "-m", model, "x").err
    assert "network" not in place.bridle("run", "-m", model, "x").err


def test_a_run_that_goes_on_says_how_it_runs_and_what_is_wrong_like_a_new_one(place: Place) -> None:
    model = place.script("say one\n---\nsay two\n")
    place.bridle("run", "-m", model, "x")
    ran = place.bridle("run", "-c", "--json", "--mode", "auto", "--sandbox", "off", "--deny", "bsah", "x")
    assert [line.partition(" ")[0] for line in ran.story] == ["--deny:", "model", "done"]
    assert " · mode auto · sandbox off · " in ran.story[1]
    kinds = [event["kind"] for event in ran.result["events"]]
    assert (kinds[0], kinds.count("SessionCreated"), kinds.count("TurnEnded")) == ("SessionCreated", 1, 1)


def test_an_added_folder_may_be_written(place: Place) -> None:
    other = place.work.parent / "other"
    other.mkdir()
    call = json.dumps({"path": str(other / "a"), "content": "x"})
    model = place.script(f"call write_file {call}\n---\nsay done\n")
    assert place.bridle("run", "-y", "-m", model, "x").code == 0
    assert not (other / "a").exists()
    assert place.bridle("run", "-y", "--add-dir", "../other", "-m", model, "x").code == 0
    assert (other / "a").read_text() == "x"


def test_a_pipe_that_stays_open_and_empty_does_not_hold_a_run_up(place: Place) -> None:
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [*BRIDLE, "run", "-m", "demo", "hello"],
            stdin=reading,
            cwd=place.work,
            env=place.environment(),
            capture_output=True,
            text=True,
            timeout=20,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0
    assert "stdin is open and empty; went on without it" in done.stderr


def test_the_digest_in_the_result_is_the_end_of_the_chain(place: Place) -> None:
    ran = place.bridle("run", "--json", "-m", "demo", "x")
    assert len(ran.result["log_digest"]) == 64
    assert ran.result["cost"]["usd"] == 0.0


def test_habits_of_other_tools_are_understood(place: Place) -> None:
    model = place.script("say hi\n")
    asked = place.bridle("run", "--output-format", "json", "--plan", "-m", model, "x")
    created = next(event for event in asked.result["events"] if event["kind"] == "SessionCreated")
    assert created["payload"]["mode"] == "plan"
    assert place.bridle("run", "--output-format", "json", "--stream-json", "-m", model, "x").code == 2
    last = place.bridle("run", "--output-format", "stream-json", "-m", model, "x").out.splitlines()[-1]
    assert "run.result" in last


def test_own_words_are_added_to_the_system_text(place: Place) -> None:
    (place.work / "words.md").write_text("Answer in Latin.", encoding="utf-8")
    model = place.script("say hi\n")
    for given in ("Answer in Latin.", "@words.md"):
        ran = place.bridle("run", "--json", "--append-system-prompt", given, "-m", model, "x")
        prefix = next(event for event in ran.result["events"] if event["kind"] == "PrefixSet")
        assert "Answer in Latin." in prefix["payload"]["system"]
    missing = place.bridle("run", "--append-system-prompt", "@nowhere.md", "-m", model, "x")
    assert (missing.code, missing.story) == (
        2,
        ["--append-system-prompt: nowhere.md cannot be read: No such file or directory"],
    )


@pytest.mark.requirement("D7.23")
@pytest.mark.parametrize("stdin", ["", " /compact\n"])
def test_a_run_sends_no_model_the_word_that_folds_a_conversation(place: Place, stdin: str) -> None:
    words = () if stdin else ("/compact",)
    ran = place.bridle("run", "-m", place.script("say Hi.\n"), *words, stdin=stdin)
    assert (ran.code, ran.out) == (2, "")
    assert ran.story[-1].startswith("A run does not know /compact, ")
    assert ran.story[-1].endswith(" Nothing was sent")
    assert place.sessions() == []


FITS = '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}, "additionalProperties": false}'


def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_what_is_wrong(place: Place) -> None:
    model = place.script('say {"n": "three"}\n---\nsay Sorry:\nsay ```json\nsay {"n": 3}\nsay ```\n')
    words = ("run", "--output-schema", schema(place, FITS), "-o", "answer.json", "-m", model, "count")
    ran = place.bridle(*words)
    assert (ran.code, ran.out) == (0, '{"n": 3}\n'), "exactly the JSON that was checked"
    assert (place.work / "answer.json").read_text() == '{"n": 3}\n'
    assert any("does not fit the schema" in line and line.endswith("asked once more") for line in ran.story)
    assert "2 steps" in ran.story[-1]
    asked = [one.event for one in place.events(place.only_session()) if isinstance(one.event, InputAccepted)]
    assert len(asked) == 2
    assert "does not fit the JSON Schema: n: 'three' is not of type 'integer'" in asked[1].content[0].text


def test_an_answer_that_never_fits_is_not_printed_as_if_it_did(place: Place) -> None:
    model = place.script("say no\n---\nsay still no\n---\nsay never asked\n")
    ran = place.bridle("run", "--output-schema", schema(place, FITS), "-o", "answer.json", "-m", model, "x")
    assert (ran.code, ran.out) == (1, "")
    assert not (place.work / "answer.json").exists()
    assert "never asked" not in place.bridle("sessions", "show", place.only_session()).out


async def test_the_schema_is_sent_to_a_vendor_that_has_a_field_for_it(place: Place) -> None:
    async with ModelServer.playing(say('{"n": 3}')) as server:
        setting = f"providers.openai.base_url={server.url}"
        words = (
            "run",
            "--set",
            setting,
            "-m",
            "openai:scripted-large",
            "--output-schema",
            schema(place, FITS),
            "x",
        )
        ran = await asyncio.to_thread(place.bridle, *words, env={"OPENAI_API_KEY": "sk-" + "Qx7w" * 8})
    assert (ran.code, ran.out) == (0, '{"n": 3}\n')
    asked = server.chats[0].json
    assert asked["response_format"]["json_schema"]["schema"] == json.loads(FITS)
    assert asked["tools"], "and it may still call tools"


def test_an_answer_that_must_fit_is_not_streamed(place: Place) -> None:
    ran = place.bridle("run", "--stream", "--output-schema", schema(place, FITS), "-m", "demo", "x")
    assert (ran.code, ran.out) == (2, "")
    assert ran.story == [
        "--stream prints words as they come, --output-schema only an answer that fits. Choose one"
    ]


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (("--json", "--bad"), "json"),
        (("--stream-json", "--mode", "nope", "x"), "stream-json"),
        (("--output-format=json", "--timeout", "0", "x"), "json"),
        (("--json", "-m", "demo", "-c", "mode=auto"), "json"),
        (("--json", "--stream", "x"), "json"),
        (("--json",), "json"),
    ],
)
def test_a_mistake_in_a_run_for_programs_is_an_object_for_programs(
    place: Place, words: tuple[str, ...], last: str
) -> None:
    ran = place.bridle("run", *words)
    assert (ran.code, ran.result["exit_code"], ran.result["success"]) == (2, 2, False)
    assert ran.result["error"]["message"] == ran.story[0]
    assert ran.result.get("eventType") == ("run.result" if last == "stream-json" else None)


def test_the_word_json_in_a_prompt_asks_for_nothing(place: Place) -> None:
    ran = place.bridle("run", "--bad", "--", "--json")
    assert (ran.code, ran.out) == (2, "")
