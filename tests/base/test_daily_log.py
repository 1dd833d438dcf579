"""The log of how a program fares: a file a day, yours alone, without secrets, never in anybody's way."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.fs.daily_log import DAYS_KEPT, LEVELS, DailyLog, Levels, parse_levels
from bridle.conformance.fake_clock import FakeClock
from secret_kit import tokens

COMPONENTS = ("engine", "provider", "hook")
DAY_S = 24 * 3600


def log_in(folder: Path, clock: FakeClock, levels: Levels | None = None, **more) -> DailyLog:
    return DailyLog(str(folder), "bridle", clock=clock, levels=levels or Levels(), **more)


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


@pytest.mark.requirement("G48.1")
async def test_every_day_has_a_file_of_json_lines_that_only_its_owner_can_read(tmp_path: Path):
    clock = FakeClock()
    clock.set_wall(1_790_000_000_000)
    folder = tmp_path / "state" / "log"
    log = log_in(folder, clock)
    assert not folder.exists(), "nothing is made before there is something to say"
    log.write("warning", "engine", "degraded", what="sandbox", nothing=None)
    await clock.advance(DAY_S)
    log.write("error", "provider.work", "failed", attempt=2)
    log.close()
    assert [path.name for path in sorted(folder.iterdir())] == ["bridle-20260921.log", "bridle-20260922.log"]
    assert lines(folder) == [
        {
            "ts": "2026-09-21T14:13:20.000Z",
            "level": "warning",
            "component": "engine",
            "msg": "degraded",
            "what": "sandbox",
        },
        {
            "ts": "2026-09-22T14:13:20.000Z",
            "level": "error",
            "component": "provider.work",
            "msg": "failed",
            "attempt": 2,
        },
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_old_days_go_and_other_files_stay(tmp_path: Path):
    clock = FakeClock()
    (tmp_path / "mine.log").write_text("x")
    for _ in range(DAYS_KEPT + 5):
        log = log_in(tmp_path, clock)
        log.write("info", "engine", "still here")
        log.close()
        await clock.advance(DAY_S)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == DAYS_KEPT + 1 + 1
    assert names[-1] == "mine.log"


def test_a_full_file_gives_way_to_another_and_the_oldest_go(tmp_path: Path):
    one, other = (log_in(tmp_path, FakeClock(), most_bytes=400, most_files=3) for _ in range(2))
    for number in range(30):
        (one if number % 2 else other).write("info", "engine", "x" * 60, number=number)
        if number % 5 == 0:
            one.close()  # as a process that comes and goes
    kept = [line["number"] for line in lines(tmp_path)]
    assert all(path.stat().st_size <= 400 for path in tmp_path.iterdir())
    assert 2 <= len(list(tmp_path.iterdir())) <= 3 + 1
    assert 29 in kept
    one.close()
    other.close()


def test_secrets_never_reach_the_file_and_long_texts_are_cut(tmp_path: Path):
    own = "a-value-no-shape-gives-away"
    log = log_in(tmp_path, FakeClock(), secrets=lambda: (own,))
    planted = tokens()
    for one in planted:
        log.write("error", "engine", f"failed with {one.text}", detail=f"{one.text} and {own}")
    log.write("error", "engine", "y" * 5_000)
    log.close()
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert own not in written
    assert [one.kind for one in planted if one.secret in written] == []
    assert max(len(line) for line in written.splitlines()) < 2_000


def test_what_cannot_be_written_is_dropped(tmp_path: Path):
    (tmp_path / "log").write_text("a file stands here")
    log_in(tmp_path / "log", FakeClock()).write("error", "engine", "failed")
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "bridle-20000101.log").symlink_to(elsewhere)
    clock = FakeClock()
    clock.set_wall(946_684_800_000)
    log_in(tmp_path / "other", clock).write("error", "engine", "failed")
    assert not elsewhere.exists(), "a link is not followed"


def test_every_line_goes_to_the_echo_too(tmp_path: Path):
    heard: list[str] = []
    log = log_in(tmp_path, FakeClock(), parse_levels("error,hook=debug", COMPONENTS), echo=heard.append)
    log.write("info", "engine", "not this")
    log.write("debug", "hook", "but this")
    log.close()
    assert [json.loads(line)["msg"] for line in heard] == ["but this"]
    assert [line["msg"] for line in lines(tmp_path)] == ["but this"]


@given(
    usual=st.sampled_from(LEVELS),
    named=st.dictionaries(st.sampled_from(("engine", "provider", "provider.work")), st.sampled_from(LEVELS)),
    level=st.sampled_from(LEVELS[:-1]),
    component=st.sampled_from(("engine", "hook", "provider.work", "provider.workshop", "provider")),
)
def test_the_longest_name_that_fits_decides(usual, named, level, component):
    text = ",".join((usual, *(f"{name}={value}" for name, value in named.items())))
    levels = parse_levels(text, COMPONENTS)
    names = [component, component.partition(".")[0]]
    least = next((named[name] for name in names if name in named), usual)
    assert levels.writes(level, component) == (LEVELS.index(level) >= LEVELS.index(least))


@given(st.text())
def test_any_text_is_levels_or_a_sentence(text: str):
    try:
        parse_levels(text, COMPONENTS)
    except ValueError as problem:
        assert "There are" in str(problem)


def test_levels_are_read_as_people_write_them():
    assert parse_levels("", COMPONENTS) == Levels("info")
    assert parse_levels(" warn , provider.* = debug ", COMPONENTS) == Levels(
        "warning", (("provider", "debug"),)
    )
    with pytest.raises(ValueError, match=r'"loud" is no level\. There are debug, info, warning, error, off'):
        parse_levels("engine=loud", COMPONENTS)
    with pytest.raises(ValueError, match='no component "motor"'):
        parse_levels("motor=debug", COMPONENTS)


def test_neither_text_that_is_none_nor_a_strange_file_in_the_folder_keeps_a_line_out(tmp_path: Path):
    (tmp_path / "bridle-20260101.\N{SUPERSCRIPT TWO}.log").write_text("")
    log = log_in(tmp_path, FakeClock())
    log.write("warning", "engine", "degraded", what="name \udcff")
    log.close()
    assert [line["what"] for line in lines(tmp_path)] == ["name \\udcff"]
