"""What a command printed, in the person's own pager: read there, and kept nowhere."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cli_kit import Place
from cli_terminal import sitting

PRINTED = "the quick brown fox"
WORK = f"call bash\n    command: echo {PRINTED}\n---\nsay All done.\n"


def files_with(folder: Path, text: str) -> list[Path]:
    """The files below a folder that hold this text as it stands."""
    held = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in held if text.encode() in path.read_bytes()]


def test_the_output_of_a_command_is_read_in_a_pager_and_stands_in_no_file(place: Place) -> None:
    seen = place.work / "seen"
    pager = f"sh -c {shlex.quote(f'cat > {seen}; echo It is read.; read line < /dev/tty')}"
    with sitting(place, "-m", place.script(WORK), "--mode", "auto", PAGER=pager) as person:
        person.sees("Type what you want.")
        person.types("go\r")
        person.sees("All done.")
        person.types("/output\r")
        person.sees("It is read.")
        assert files_with(place.home, PRINTED) == []
        person.types("\r")
        person.waits(lambda: person.text.count("auto ›") == 3, "a prompt again")
        person.types("/quit\r")
        assert person.ends() == 0
    assert PRINTED in seen.read_text()


@pytest.mark.parametrize(("own", "told"), [({}, "-FRX"), ({"LESS": "-S"}, "-S")])
def test_less_keeps_what_fits_on_the_screen_unless_told_otherwise(
    place: Place, own: dict[str, str], told: str
) -> None:
    pager = """sh -c 'echo "less is told $LESS."'"""
    with sitting(place, "-m", place.script(WORK), "--mode", "auto", PAGER=pager, **own) as person:
        person.sees("Type what you want.")
        person.types("go\r")
        person.sees("All done.")
        person.types("/output\r")
        person.sees(f"less is told {told}.")
        person.waits(lambda: person.text.count("auto ›") == 3, "a prompt again")
        person.types("/quit\r")
        assert person.ends() == 0


@pytest.mark.parametrize(
    ("pager", "said"),
    [
        ("no-such-pager", "The pager no-such-pager could not be started (not found). Set PAGER"),
        ("less '", "PAGER is not a command: less ' (No closing quotation)"),
    ],
)
def test_a_pager_that_cannot_be_started_is_named(place: Place, pager: str, said: str) -> None:
    with sitting(place, "-m", place.script(WORK), "--mode", "auto", PAGER=pager) as person:
        person.sees("Type what you want.")
        person.types("go\r")
        person.sees("All done.")
        person.types("/output\r")
        person.sees(said)
        person.types("/quit\r")
        assert person.ends() == 0
