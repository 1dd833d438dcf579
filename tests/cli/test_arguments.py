"""What people type first: version, help, and words that are nearly right."""

import os
import subprocess

import pytest

from bridle._version import __version__
from bridle.app.user.setting_sections import TABLE
from bridle.cli.help import pages, topics
from bridle.cli.verbs import TALK, VERBS, verb_names
from cli_kit import BRIDLE, Place

PAGES = pages()
TOPICS = [topic for topic in PAGES if topic]
NAMES = set(verb_names(VERBS))


@pytest.mark.parametrize("word", ["--version", "-v"])
def test_the_version_is_one_line(place: Place, word: str) -> None:
    assert place.bridle(word) == (0, f"bridle {__version__}\n", "")


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("help",)])
def test_without_a_command_the_overview_is_shown_and_nothing_is_made(
    place: Place, words: tuple[str, ...]
) -> None:
    assert place.bridle(*words) == (0, PAGES[""], "")
    assert os.listdir(place.home) == []


@pytest.mark.parametrize("topic", TOPICS)
def test_every_help_page_is_shown_by_its_name(place: Place, topic: str) -> None:
    assert place.bridle("help", topic) == (0, PAGES[topic], "")


def test_without_a_terminal_talking_is_refused_in_one_sentence(place: Place) -> None:
    for words in ((), ("-c",), ("-m", "demo"), ("fix the bug",)):
        ran = place.bridle(*words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.story == ["bridle talks at a terminal. For scripts and pipes: bridle run PROMPT"]
    assert os.listdir(place.home) == []


def test_the_overview_names_every_verb_and_every_other_page() -> None:
    words = set(PAGES[""].replace("bridle help ", "bridle-help-").split())
    for_builders = {
        line.split()[1] for line in PAGES["builders"].splitlines() if line.startswith("  bridle ")
    }
    assert NAMES - {"help"} - for_builders <= words & set(topics())
    assert for_builders <= NAMES & set(topics())
    assert {f"bridle-help-{topic}" for topic in topics() if topic not in NAMES} <= words
    assert "bridle-help-VERB" in words


def test_the_page_of_settings_has_every_key(place: Place) -> None:
    ran = place.bridle("help", "settings")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.out.splitlines()] == [setting.key for setting in TABLE.settings]


def test_a_page_nobody_wrote_is_answered_with_those_there_are(place: Place) -> None:
    ran = place.bridle("help", "nonsense")
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.story
    assert line.startswith('There is no help page "nonsense". Pages: ')
    assert all(topic in line for topic in topics())


@pytest.mark.parametrize(
    ("words", "topic"),
    [
        (("run", "--help"), "run"),
        (("demo", "-h"), "demo"),
        (("sessions", "list", "-h"), "sessions"),
        (("sessions", "--help"), "sessions"),
        (("config", "-h"), "config"),
        (("config", "set", "-h"), "config"),
        (("models", "--help"), "models"),
        (("tools", "-h"), "tools"),
        (("doctor", "-h"), "doctor"),
        (("redact", "-h"), "redact"),
        (("completion", "-h"), "completion"),
        (("mcp", "login", "--help"), "mcp"),
        (("mcp", "serve", "-h"), "mcp-serve"),
        (("help", "mcp", "allow"), "mcp-serve"),
        (("help", "mcp"), "mcp"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_help_asked_of_a_command_is_its_page(place: Place, words: tuple[str, ...], topic: str) -> None:
    assert place.bridle(*words) == (0, PAGES[topic], "")


def test_a_page_has_a_line_for_every_action_and_every_option_of_its_verb() -> None:
    missing = [
        (page, wanted)
        for verb in VERBS.values()
        if verb.name != TALK
        for row in (verb, *verb.actions)
        for page in [row.page or verb.name]
        for wanted in (*([] if row is verb else [row.usage]), *(option.usage for option in row.options))
        if not row.options_page and not any(_left(line) == wanted for line in PAGES[page].splitlines())
    ]
    assert missing == []


def _left(line: str) -> str:
    return line.removeprefix("  ").partition("  ")[0]


def test_help_pages_fit_a_screen() -> None:
    for topic, text in PAGES.items():
        assert topic == "run" or len(text.splitlines()) <= 45, topic
        assert max(map(len, text.splitlines())) <= 120, topic


@pytest.mark.requirement("C22")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sesions",), 'No command "sesions". Did you mean sessions? As a prompt: bridle -- sesions'),
        (("rnu", "x"), "No command \"rnu\". Did you mean run? As a prompt: bridle -- 'rnu x'"),
        (("modles",), 'No command "modles". Did you mean models? As a prompt: bridle -- modles'),
        (("version",), 'No command "version". Did you mean --version? As a prompt: bridle -- version'),
        (
            ("sessions", "lst"),
            (
                'sessions: "lst" is none of list, show, replay, search, export, diff, branch, import, rename, '
                "pin, dismiss, delete, prune, repair, backup, rekey. Did you mean list? See: bridle help sessions"
            ),
        ),
        (
            ("run", "--mode", "yollo", "x"),
            (
                '--mode: "yollo" is none of strict, default, safe, auto, yolo, plan. Did you mean yolo? '
                "See: bridle help run"
            ),
        ),
        (
            ("completion", "tcsh"),
            (
                'completion: "tcsh" is none of bash, zsh, fish, sessions, profiles, models, skills, agents, servers. '
                "See: bridle help completion"
            ),
        ),
        (
            ("run", "-c", "mode=auto", "x"),
            "-c goes on with the newest session. For a setting: --set mode=auto. As a prompt: -c -- mode=auto",
        ),
        (("frobnicate",), 'No command "frobnicate". As a prompt: bridle -- frobnicate'),
        (
            ("--set", "debug.raw=true", "run", "-m", "demo", "hi"),
            "Options come after the verb: bridle run … See: bridle help run",
        ),
        (("--bogus",), 'There is no option "--bogus" here. See: bridle help'),
        (("run", "--bogus", "x"), 'There is no option "--bogus" here. See: bridle help run'),
        (
            ("run", "--modle", "x"),
            'There is no option "--modle" here. Did you mean --model? See: bridle help run',
        ),
        (
            ("--max-setps=3", "x y"),
            'There is no option "--max-setps" here. Did you mean --max-steps? See: bridle help',
        ),
        (
            ("sessions", "list", "--jsno"),
            'There is no option "--jsno" here. Did you mean --json? See: bridle help sessions',
        ),
        (("tools", "list", "all"), '"all" means nothing here. See: bridle help tools'),
        (
            ("run", "--allow-unsand", "x"),
            'There is no option "--allow-unsand" here. Did you mean --allow-unsandboxed? See: bridle help run',
        ),
        (
            ("run", "--allow-policy-changes=yes", "x"),
            "--allow-policy-changes takes no value. See: bridle help run",
        ),
        (("run", "-m"), "-m/--model: expected one argument. See: bridle help run"),
        (
            ("run", "--max-steps", "0", "x"),
            '--max-steps/--max-turns: "0" is not a whole number above 0. See: bridle help run',
        ),
        (("sessions", "show"), "ID is missing. See: bridle help sessions"),
        (("sessions", "export"), "Which session? bridle sessions export ID"),
        (("config", "set", "mode"), "VALUE is missing. See: bridle help config"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_word_that_means_nothing_gets_one_sentence_and_exit_2(
    place: Place, words: tuple[str, ...], sentence: str
) -> None:
    ran = place.bridle(*words)
    assert (ran.code, ran.out, ran.story) == (2, "", [sentence])
    assert os.listdir(place.home) == []


def test_what_was_typed_is_shown_and_not_obeyed(place: Place) -> None:
    assert place.bridle("run", "--bo\x1b[31mgus", "x").story == [
        'There is no option "--bo⟨ESC⟩[31mgus" here. See: bridle help run'
    ]


def test_a_wrong_choice_names_the_right_ones(place: Place) -> None:
    ran = place.bridle("run", "--mode", "wild", "x")
    assert ran.code == 2
    (line,) = ran.story
    assert all(mode in line for mode in ("strict", "default", "safe", "auto", "yolo", "plan"))


@pytest.mark.requirement("D13.4", "C22")
@pytest.mark.parametrize(
    "words",
    [("--version",), ("help",), ("sessions", "list"), ("config",), ("tools",), ("doctor", "--offline")],
)
def test_a_closed_stdout_is_no_reason_for_a_traceback(place: Place, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *BRIDLE, *words],
        env=place.environment(),
        cwd=place.work,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "-m", "demo", ""), 'The prompt is empty. Give one: bridle run "what to do"'),
        (("config", "get", "zzzzzz"), 'there is no setting "zzzzzz" (all of them: bridle help settings)'),
        (
            ("run", "-m", "demo", "--timeout", "0", "x"),
            '--timeout: "0" is not a number of seconds above 0. See: bridle help run',
        ),
    ],
)
def test_a_mistake_is_told_with_what_to_type_instead(
    place: Place, words: tuple[str, ...], sentence: str
) -> None:
    assert place.bridle(*words) == (2, "", f"bridle: {sentence}\n")
