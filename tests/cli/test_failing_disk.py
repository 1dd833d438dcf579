"""A disk that fails while something runs: the run ends, and says what had begun."""

import json
import os
import resource
from pathlib import Path

import pytest

from cli_kit import BRIDLE, Place
from strace_kit import unsynced

TOUCHES = "read line < go; echo made > made.txt"


@pytest.mark.parametrize("form", ["--stream-json", "--json", "text"])
def test_a_log_that_cannot_be_written_any_more_ends_the_run_and_says_what_had_begun(
    place: Place, form: str
) -> None:
    os.mkfifo(place.work / "go")
    model = place.script(f"call bash\n    command: {TOUCHES}\n---\nsay done\n")
    with place.started(
        "run", "-y", "-s", "off", *([form] if form != "text" else []), "-m", model, "x"
    ) as running:
        with open(place.work / "go", "w", encoding="utf-8") as go:  # opens when the command reads it
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
            go.write("go\n")
        ran = running.end()
    assert ran.code == 1
    assert "cannot write its log any more" in ran.err
    assert TOUCHES in ran.err.partition("Had begun, and may have happened: ")[2]
    assert "nothing was run" not in ran.err
    if form != "text":
        result = json.loads(ran.out.splitlines()[-1])
        assert (result["reason"], result["exit_code"], result["success"]) == ("StoreFailed", 1, False)
        assert TOUCHES in result["error"]["message"]
    place.verify(place.only_session())


WRITES_TWICE = """call write_file {"path": "a.txt", "content": "new"}
---
call write_file {"path": "b.txt", "content": "new"}
---
say Done.
"""
SYNCS = {
    "the first commit": [],
    "the first intent": [],
    "the second intent": ["a.txt"],
    "the end": ["a.txt", "b.txt"],
}
"""What the write-ahead log of a run is synced for, and what the run has written by then."""


@pytest.mark.parametrize("which", SYNCS)
def test_a_sync_that_fails_ends_the_run_with_the_truth_and_nothing_is_written_behind_it(
    place: Place, tmp_path: Path, which: str
) -> None:
    assert place.bridle("run", "-m", place.script("say Hi.\n", "hi.script"), "x").code == 0
    done, behind = unsynced(
        [*BRIDLE, "run", "--json", "--mode", "auto", "-m", place.script(WRITES_TWICE), "x"],
        failing=place.data / "sessions.db-wal",
        nth=list(SYNCS).index(which) + 1,
        watched=(place.data / "sessions.db",),
        cwd=place.work,
        env=place.environment(),
        scratch=tmp_path,
    )
    assert behind == [], "no other sync is believed, and what is there is left as it is"
    result = json.loads(done.stdout)
    assert (done.returncode, result["reason"], result["success"]) == (1, "StoreFailed", False)
    said = done.stderr.decode()
    assert "cannot write its log any more" in said
    assert "while syncing" in said
    assert "nothing was run" not in said
    written = sorted(path.name for path in place.work.glob("*.txt"))
    assert (written, [name for name in ("a.txt", "b.txt") if f"ran      write {name}" in said]) == (
        SYNCS[which],
        SYNCS[which],
    )
    for row in place.sessions():
        place.verify(row.id)
    assert place.bridle("run", "-m", "demo:hi.script", "x").code == 0


def test_a_database_that_cannot_be_synced_when_it_is_made_is_no_fault_of_the_words(
    place: Place, tmp_path: Path
) -> None:
    done, behind = unsynced(
        [*BRIDLE, "run", "-m", place.script("say Hi.\n"), "x"],
        failing=place.data / "sessions.db.new",
        nth=1,
        cwd=place.work,
        env=place.environment(),
        scratch=tmp_path,
    )
    assert behind is not None
    assert (done.returncode, done.stdout, b"Traceback" in done.stderr) == (1, b"", False)
    assert not (place.data / "sessions.db").exists()
    assert place.bridle("run", "-m", "demo:it.script", "x").code == 0
