"""`bridle completion`: real shells load the script and are asked what they would offer."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from bridle.cli.help import topics
from bridle.cli.verbs import VERBS, verb_names
from cli_kit import BRIDLE, Place

SHELLS = ("bash", "zsh", "fish")

# Fills in what bash fills in when Tab is pressed, and prints what it would offer.
ASK = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_bridle
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(place: Place) -> Path:
    made = place.bridle("completion", "bash")
    assert (made.code, made.err) == (0, "")
    file = place.work / "completion.bash"
    file.write_text(made.out)
    return file


def run(shell: str, *words: str) -> str:
    done = subprocess.run(
        [_found(shell), *words], capture_output=True, env={"PATH": "/usr/bin:/bin"}, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def _found(shell: str) -> str:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    return program


def offered(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    return run("bash", "--norc", "-c", ASK, "bash", str(script), "bridle", *words).split()


def test_bash_calls_the_function_for_our_name(script: Path) -> None:
    registered = run("bash", "--norc", "-c", 'source "$1"; complete -p bridle', "bash", str(script))
    assert registered == "complete -o default -F _bridle bridle\n"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("",), [*verb_names(VERBS), "--help", "--version"]),
        (("mo",), ["models"]),
        (("--ver",), ["--version"]),
        (("help", ""), topics()),
        (("run", "--mo"), ["--model", "--mode"]),
        (("run", "--mode", ""), ["strict", "default", "safe", "auto", "yolo", "plan"]),
        (("run", "--mode", "=", "p"), ["plan"]),
        (("run", "--mode", "="), ["strict", "default", "safe", "auto", "yolo", "plan"]),
        (("run", "-m", "config", "--on-a"), ["--on-ask"]),
        (("run", "--on-ask", "w"), ["wait"]),
        (
            ("run", "sessions", "--al"),
            [
                "--allow",
                "--allow-policy-changes",
                "--allow-unsandboxed",
                "--allow-host",
                "--allow-project-hooks",
            ],
        ),
        (("sessions", "e"), ["export"]),
        (("sessions", "list", "--"), ["--help", "--all", "--limit", "--after", "--json"]),
        (
            ("sessions", "export", "--format", ""),
            ["jsonl", "envelope", "events", "chain", "markdown", "md", "html"],
        ),
        (("config", "un"), ["unset"]),
        (("config", "set", "budget.m"), ["budget.max_steps"]),
        (("config", "set", "api"), []),
        (("models", "oll"), ["ollama"]),
        (("models", "--k"), ["--keys"]),
        (("doctor", "--o"), ["--offline"]),
        (("completion", "b"), ["bash"]),
        (("run", "--prompt-file", ""), []),
        (("run", "a prompt with 'quotes' and $(touch it)", "--quie"), ["--quiet"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bash_offers_what_the_parser_knows(script: Path, words: tuple[str, ...], wanted: list[str]) -> None:
    assert offered(script, *words) == wanted


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_finds_no_mistake_in_its_script(place: Place, shell: str) -> None:
    made = place.bridle("completion", shell)
    assert (made.code, made.err) == (0, "")
    file = place.work / "completion"
    file.write_text(made.out)
    run(shell, "-n", str(file))


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_and_option_is_in_every_script(place: Place, shell: str) -> None:
    made = place.bridle("completion", shell).out
    for verb in verb_names(VERBS):
        assert verb in made
    for word in ("max-steps", "offline", "origin", "mark-unknown", "budget.max_steps", "exit-codes"):
        assert word in made


def test_another_shell_is_refused_with_those_there_are(place: Place) -> None:
    for words in (("tcsh",), ()):
        ran = place.bridle("completion", *words)
        assert (ran.code, ran.out, len(ran.story)) == (2, "", 1)
        assert ran.story[0].endswith("See: bridle help completion")


def asked_live(place: Place, script: Path, *words: str) -> list[str]:
    """What bash offers where a Bridle with this home answers for what changes."""
    program = place.work / "bin" / "bridle"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(BRIDLE)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    env = {**place.environment(), "PATH": f"{program.parent}:/usr/bin:/bin"}
    command = [_found("bash"), "--norc", "-c", ASK, "bash", str(script), "bridle", *words]
    done = subprocess.run(command, capture_output=True, env=env, cwd=place.work, timeout=40, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().split()


def test_sessions_and_profiles_are_offered_as_they_are_now(place: Place, script: Path) -> None:
    place.bridle("run", "-m", "demo", "hello")
    short = place.only_session().removeprefix("sess_")[:10]
    profiles = place.home / ".config/bridle/profiles"
    profiles.mkdir(parents=True)
    (profiles / "nightly.toml").write_text("schema_version = 1\n", encoding="utf-8")
    (profiles / "$(touch gone).toml").write_text("schema_version = 1\n", encoding="utf-8")
    assert asked_live(place, script, "run", "-r", "") == [short]
    assert asked_live(place, script, "sessions", "show", "01") == [short]
    assert asked_live(place, script, "run", "--profile", "nig") == ["nightly"]
    assert not any("touch" in word for word in asked_live(place, script, "run", "--profile", ""))
    assert not (place.work / "gone").exists()


def test_every_verb_about_servers_is_offered_and_then_their_names(place: Place, script: Path) -> None:
    verbs = (
        "serve parents allow forget list show test add remove logs restart login logout secret import approve"
    )
    assert set(verbs.split()) <= set(offered(script, "mcp", ""))
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        '[mcp_servers.files]\ncommand = "serve"\n[mcp_servers."$(touch${IFS}gone)"]\ncommand = "serve"\n'
    )
    place.bridle("run", "-m", "demo", "hello")
    for verb in ("show", "test", "remove", "logs", "restart", "login", "logout", "approve"):
        assert asked_live(place, script, "mcp", verb, "f") == ["files"]
    assert not any("touch" in word for word in asked_live(place, script, "mcp", "show", ""))
    options = ["-h", "--help", "--auto-attach"]
    assert asked_live(place, script, "mcp", "allow", "") == options, "its IDs are no sessions"
    assert not (place.work / "gone").exists()


def test_what_changes_is_one_word_a_line_and_nothing_where_there_is_nothing(place: Place) -> None:
    assert place.bridle("completion", "sessions") == (0, "", "")
    assert place.bridle("completion", "profiles").code == 0
    assert list(place.home.iterdir()) == []


def test_models_that_are_set_up_are_offered_also_behind_a_colon(place: Place, script: Path) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        '[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[models."work:large"]\nprice_in = 1\n[models."work:la$(touch gone)"]\nprice_in = 1\n'
    )
    assert asked_live(place, script, "run", "-m", "wor") == ["work:large"]
    assert asked_live(place, script, "run", "-m", "work", ":") == ["large"]
    assert asked_live(place, script, "run", "--model", "work", ":", "la") == ["large"]
    assert not (place.work / "gone").exists()


def test_the_name_of_a_repeated_job_is_nothing_we_could_know(script: Path) -> None:
    assert offered(script, "run", "--session", "") == []
