"""The words of a run: named prompts, files that are pointed at, and a file that holds the prompt."""

from __future__ import annotations

import re

import pytest

from bridle.cli.verbs import VERBS
from bridle.cli.verbs.rows import HELP
from bridle.protocol.events import ContextAdded, InputAccepted, text_of
from cli_kit import Place

pytestmark = pytest.mark.through_engine(quick=False)

ANSWER = "say Hi.\n"


def heard(place: Place) -> str:
    """What the only session was asked."""
    (asked,) = (
        one.event for one in place.events(place.only_session()) if isinstance(one.event, InputAccepted)
    )
    return text_of(asked.content)


def test_a_named_prompt_works_in_a_run(place: Place) -> None:
    ran = place.bridle("run", "-m", place.script(ANSWER), "/review", "only", "the tests")
    assert ran.code == 0
    assert heard(place).startswith("Review the uncommitted changes")
    assert heard(place).endswith("\n\nonly the tests")


@pytest.mark.requirement("D7.23")
@pytest.mark.parametrize(
    ("words", "near"), [("/compact", ""), ("/nosuch now", ""), ("/reveiw", " Did you mean /review?"), ("/undo", "")]
)  # fmt: skip
def test_a_command_that_a_run_does_not_know_is_sent_to_no_model(place: Place, words: str, near: str) -> None:
    ran = place.bridle("run", "-m", place.script(ANSWER), words)
    name = words.split()[0]
    assert (ran.code, ran.out) == (2, "")
    assert ran.story == [
        (
            f"A run does not know {name}, only /skills:NAME, /agents:NAME, /init, /review, /branch, /commit, "
            f"/commit-push-pr, /worktree, /worktrees, /stash, /plan, /solve, /code, /auto and /goal.{near} "
            f"Others are for a conversation: bridle -c. As text: /{name}. Nothing was sent"
        )
    ]
    assert place.sessions() == []


@pytest.mark.parametrize("words", ["//review", "/etc/hosts is odd", " /review"])
def test_words_that_only_look_like_a_command_are_words(place: Place, words: str) -> None:
    assert place.bridle("run", "-m", place.script(ANSWER), words).code == 0
    assert heard(place) == words.strip().removeprefix("/" if words.startswith("//") else "")


def test_a_file_that_is_pointed_at_is_shown_to_the_model(place: Place) -> None:
    (place.work / "notes.txt").write_text("forty-two\n", encoding="utf-8")
    ran = place.bridle("run", "-m", place.script(ANSWER), "what is in @notes.txt?")
    assert ran.code == 0
    added = [one.event for one in place.events(place.only_session()) if isinstance(one.event, ContextAdded)]
    assert ["forty-two" in text_of(one.content) for one in added if one.source == "mention"] == [True]


def test_a_file_that_is_pointed_at_and_missing_is_said(place: Place) -> None:
    ran = place.bridle("run", "-m", place.script(ANSWER), "what is in @nothing.txt?")
    assert ran.code == 0
    assert ran.story[0] == 'There is no file "nothing.txt" here; it was sent as it stands.'
    assert heard(place) == "what is in @nothing.txt?"


def test_what_is_piped_in_is_text_whatever_it_looks_like(place: Place) -> None:
    (place.work / "notes.txt").write_text("forty-two\n", encoding="utf-8")
    ran = place.bridle("run", "-m", place.script(ANSWER), stdin="see @notes.txt and @none")
    assert ran.code == 0
    assert not any("There is no file" in line for line in ran.story)
    assert heard(place) == "see @notes.txt and @none"
    assert not any(isinstance(one.event, ContextAdded) and one.event.source == "mention"
                   for one in place.events(place.only_session()))  # fmt: skip


def test_words_beside_a_prompt_file_come_behind_it(place: Place) -> None:
    (place.work / "task.md").write_text("Mend the cart.\n", encoding="utf-8")
    ran = place.bridle("run", "-m", place.script(ANSWER), "--prompt-file", "task.md", "and", "the tests")
    assert ran.code == 0
    assert heard(place) == "Mend the cart.\n\nand the tests"


def test_a_stream_prints_what_is_said_as_it_comes_and_nothing_twice(place: Place) -> None:
    model = place.script("say First I look.\ncall ls {}\n---\nsay Then I answer.\n")
    ran = place.bridle("run", "--stream", "-q", "-m", model, "x")
    assert ran == (0, "[scripted] First I look.\n[scripted] Then I answer.\n", "")
    whole = place.bridle("run", "--no-stream", "--plain", "--no-color", "-q", "-m", model, "x")
    assert whole == (0, "[scripted] Then I answer.\n", "")


def test_a_stream_of_words_and_an_object_exclude_each_other(place: Place) -> None:
    ran = place.bridle("run", "--stream", "--json", "-m", place.script(ANSWER), "x")
    assert (ran.code, ran.result["error"]["name"]) == (2, "Usage")
    assert ran.story == [
        "--stream prints words as they come, --json one object. Events as they come: --stream-json"
    ]


@pytest.mark.parametrize("verb", ["run", "talk"])
def test_the_page_of_options_names_every_spelling_there_is_and_no_other(place: Place, verb: str) -> None:
    ran = place.bridle("help", "options")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 120
    named = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", ran.out))
    taken = {name for option in (*VERBS[verb].options, HELP) for name in option.spellings}
    assert taken <= named
    assert verb != "run" or named <= taken


def test_a_script_fits_a_schema_and_what_a_program_reads_has_no_label(place: Place) -> None:
    (place.work / "schema.json").write_text('{"type": "object", "required": ["ok"]}')
    model = place.script('say {"ok": 1}\n---\nsay Plain.\n')
    ran = place.bridle("run", "-m", model, "--output-schema", "schema.json", "go")
    assert (ran.code, ran.out) == (0, '{"ok": 1}\n'), ran.err
    again = place.bridle("run", "-m", model, "-c", "and now?")
    assert again.out == "[scripted] Plain.\n"
