"""Which program started a process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridle.base.process.peer_process import ParentProgram, descends_from, parent_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


@contextmanager
def running(*words: str, executable: str | None = None) -> Iterator[int]:
    """A program that waits for its stdin to end, from when it runs."""
    process = subprocess.Popen(
        words, executable=executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.defpath}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"ready\n")
        process.stdin.flush()
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@pytest.mark.requirement("G19.3")
def test_a_program_is_known_by_its_word_and_by_what_is_in_its_file(tmp_path: Path) -> None:
    program = str(tmp_path / "agent")
    shutil.copy("/bin/cat", program)
    with running("agent", executable=program) as pid:
        first = parent_program(pid)
        os.rename(program, f"{program}.old")  # what runs is what counts, whatever has its name by now
        shutil.copy("/bin/sleep", program)
        assert parent_program(pid).sha256 == first.sha256
    shutil.copy("/bin/cat", program)
    with open(program, "ab") as file:
        file.write(b"\0")
    with running("agent", executable=program) as pid:
        replaced = parent_program(pid)
    with running("other", executable=f"{program}.old") as pid:
        renamed = parent_program(pid)
    assert (first.word, first.path, len(first.sha256)) == ("agent", program, 64)
    assert len({first.id, replaced.id, renamed.id}) == 3
    assert renamed.sha256 == first.sha256 != replaced.sha256


def test_of_an_interpreter_its_script_counts_too(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text("import sys; print(sys.stdin.readline(), flush=True); sys.stdin.read()\n")
    with running(sys.executable, "-I", str(script)) as pid:
        first = parent_program(pid)
    script.write_text(script.read_text() + "\n")
    with running(sys.executable, "-I", str(script)) as pid:
        changed = parent_program(pid)
    assert (first.script, first.name) == (str(script), "agent.py")
    assert first.id != changed.id
    assert first.sha256 == changed.sha256


def test_a_process_descends_from_who_started_it_and_from_nobody_else() -> None:
    with running("/bin/cat") as pid:
        assert descends_from(pid, os.getpid())
        assert not descends_from(os.getpid(), pid)
        assert descends_from(pid, pid)


def test_a_process_that_is_gone_is_an_unknown_program() -> None:
    with running("/bin/cat") as pid:
        pass
    assert parent_program(pid) == ParentProgram(pid=pid)
