"""The crash court at a real terminal, after a real kill."""

import re
import signal
from pathlib import Path

import pytest

from bridle.protocol.events import ToolResult, UndoApplied
from cli_kit import Place, SignOfLife
from cli_terminal import sitting

GONE_S = 5
BACK = "say one\n---\nsay I am back.\n---\nsay I am back.\n"


def killed(place: Place, life: SignOfLife, command: str) -> str:
    """A session that was killed while this command ran, behind which it waits forever; the model to go on with."""
    model = place.script(
        f"call bash\n    command: {life.hold}; {command}; echo begun; sleep 600\n---\nsay done\n"
    )
    with place.started("run", "--stream-json", "-y", "-m", model, "begin") as running:
        running.until("ToolCallProgress")
        running.signal(signal.SIGKILL)
    assert life.ends_within(GONE_S)
    return place.script(BACK, "back.script")


def judged(place: Place) -> list[tuple[str, object]]:
    events = [one.event for one in place.events(place.only_session())]
    return [(event.outcome, event.shown.judgement) for event in events if isinstance(event, ToolResult)]


@pytest.mark.requirement("G32.3")
def test_a_person_reads_what_happened_and_says_so(place: Place, life: SignOfLife) -> None:
    model = killed(place, life, "touch begun")
    with sitting(place, "-c", "-m", model) as person:
        person.sees("One action may or may not have happened.", "no end recorded", "q  decide later")
        assert re.search(r"Bridle stopped without warning at \d\d:\d\d\.", person.text)
        person.looks_for(0.5)
        person.types("h\r")
        person.sees("you said: it happened")
        person.types("go on\r")
        person.sees("I am back.")
        person.types("/quit\r")
        assert person.ends() == 0
    assert judged(place) == [("ok", "happened")]
    place.verify(place.only_session())


def test_undo_puts_the_files_back_as_they_were(place: Place, life: SignOfLife) -> None:
    kept = place.work / "kept.txt"
    kept.write_text("before\n")
    model = killed(place, life, "echo after > kept.txt; echo new > made.txt")
    assert kept.read_text() == "after\n"
    with sitting(place, "-c", "-m", model) as person:
        person.sees("z  undo it        d  details")
        person.looks_for(0.5)
        person.types("z\r")
        person.sees("you said: undone")
        person.types("/quit\r")
        assert person.ends() == 0
    assert kept.read_text() == "before\n"
    assert not Path(place.work / "made.txt").exists()
    assert judged(place) == [("cancelled", "undone")]
    events = place.events(place.only_session())
    assert [one.event.left for one in events if isinstance(one.event, UndoApplied)] == [()]


def test_leaving_decides_nothing(place: Place, life: SignOfLife) -> None:
    model = killed(place, life, "touch begun")
    for keys in ("q\r", "\x03"):
        with sitting(place, "-c", "-m", model) as person:
            person.sees("q  decide later")
            person.looks_for(0.5)
            person.types(keys)
            assert person.ends() == 0
        assert judged(place) == []
    ran = place.bridle("run", "-c", "--json", "go on")
    assert (ran.code, ran.result["reason"]) == (3, "OrphanedCalls")
    (orphan,) = ran.result["orphans"]
    assert orphan["tool"] == "bash"
    assert any(line.startswith("begun was changed at ") for line in orphan["now"])
    assert place.bridle("run", "-c", "--on-orphan", "ask", "go on").code == 3
