"""What the operational log says of a session: names, reasons and numbers, and nothing anybody said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridle.app.records.operational_log import (
    COMPONENTS,
    NOTED,
    NOTED_IN_DETAIL,
    Notes,
    entry_of,
    log_wanted,
    wanted_levels,
)
from bridle.base.clock import SystemClock
from bridle.base.fs.daily_log import Levels
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol import events as e
from bridle.protocol.codec import EVENT_KINDS
from bridle.protocol.errors import UsageError
from bridle.providers.script import call, fail, say
from tables import table

WORD = "zirconium"


def written(home: Path) -> list[dict[str, object]]:
    folder = home / "state" / "log"
    found = sorted(folder.iterdir()) if folder.exists() else []
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


async def test_a_quiet_session_leaves_no_operational_log(tmp_path: Path):
    async with harness(scripted(say("hello")), home=str(tmp_path), sandbox="off") as session:
        await session.ask("hi")
    assert not (tmp_path / "state" / "log").exists()


async def test_what_goes_wrong_is_noted_with_its_reason_and_without_words(tmp_path: Path):
    model = scripted(fail("bad_credentials"))
    async with harness(model, home=str(tmp_path), sandbox="off") as session:
        await session.ask(WORD)
    noted = written(tmp_path)
    assert [(line["level"], line["component"], line["msg"]) for line in noted] == [
        ("warning", "provider.demo", "request failed"),
        ("error", "auth", "failed"),
    ]
    assert {(line["session"], line["turn"], line["reason"]) for line in noted} == {
        (session.id, 1, "BadCredentials")
    }
    assert WORD not in json.dumps(noted)


async def test_with_details_every_step_is_noted_and_still_no_words(tmp_path: Path):
    model = scripted(call("bash", command=f"echo {WORD}"), say(f"{WORD} it is"))
    options = {"home": str(tmp_path), "mode": "yolo", "sandbox": "off", "sets": ["log.levels=debug"]}
    async with harness(model, **options) as session:
        await session.ask(f"say {WORD}")
    noted = written(tmp_path)
    assert [line["msg"] for line in noted if line["msg"] != "notice"] == [
        "session begins",
        "request",
        "answer",
        "call begins",
        "call ends",
        "request",
        "answer",
        "turn times",
        "turn ends",
        "session ends",
    ]
    (ended,) = (line for line in noted if line["msg"] == "call ends")
    assert (ended["tool"], ended["outcome"]) == ("bash", "ok")
    assert WORD not in json.dumps(noted)


@table(
    ("event", "component"),
    [
        (e.Error(reason="RateLimited", message=WORD, data={"provider": "work"}), "provider.work"),
        (e.Error(reason="EngineFault", message=WORD), "engine"),
        (e.Error(reason="BadCredentials", message=WORD, data={"provider": "work"}), "auth"),
        (e.Error(reason="NoSpace", message=WORD, data={"folder": WORD}), "store"),
        (e.StepFailed(step=1, attempt=2, reason="Overloaded", message=WORD, retry_in_ms=50), "provider.work"),
        (e.Degraded(what="sandbox", reason="NoSandbox", message=WORD), "engine"),
        (e.HookError(event="PreToolUse", command=WORD, exit_code=1, message=WORD), "hook"),
        (e.HookTimeout(event="PreToolUse", command=WORD, timeout_ms=5), "hook"),
        (e.MCPServerDown(name="files", reason="exit 1", attempts=3), "mcpclient"),
    ],
)
def test_each_failure_has_its_component_and_tells_no_contents(event: e.AnyEvent, component: str):
    assert type(event).__name__ in NOTED
    entry = entry_of(event, "work")
    assert entry is not None
    level, found, _, fields = entry
    assert (level in {"warning", "error"}, found) == (True, component)
    assert WORD not in str(entry)
    assert found.partition(".")[0] in COMPONENTS
    assert fields


def test_every_kind_that_is_noted_exists():
    assert set(EVENT_KINDS) >= NOTED_IN_DETAIL


def test_levels_go_by_component_and_the_usual_one_is_info():
    assert wanted_levels("") == (Levels("info"), False)
    every = ",".join(f"{component}=debug" for component in COMPONENTS)
    levels, to_stderr = wanted_levels(f"{every},stderr")
    assert to_stderr
    assert all(levels.writes("debug", component) for component in COMPONENTS)
    assert not levels.writes("debug", "elsewhere")
    with pytest.raises(UsageError, match="no component"):
        wanted_levels("motor=debug")


def test_options_win_over_the_environment():
    def asked(env=(), *, level=None, verbose=False, to_stderr=False):
        found = log_wanted(dict(env), level=level, verbose=verbose, to_stderr=to_stderr)
        return found.get("BRIDLE_LOG")

    before = {"BRIDLE_LOG": "error"}
    assert asked() is None
    assert asked(before) == "error"
    assert asked(before, verbose=True) == "debug"
    assert asked(before, level="engine=debug", verbose=True, to_stderr=True) == "engine=debug,stderr"
    assert asked(before, to_stderr=True) == "error,stderr"


def test_settings_raise_the_level_unless_somebody_said_otherwise(tmp_path: Path):
    for wanted, expected in (("", ["seen"]), ("error", [])):
        notes = Notes(str(tmp_path / (wanted or "none")), wanted, clock=SystemClock())
        loud = notes.with_levels("debug")
        loud.detail("engine", "seen")
        notes.close()
        folder = tmp_path / (wanted or "none") / "log"
        lines = [line for path in folder.glob("*") for line in path.read_text().splitlines()]
        assert [json.loads(line)["msg"] for line in lines] == expected
