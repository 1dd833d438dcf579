"""A full disk while a person is there: what changes something waits, what reads goes on, nothing is lost."""

import json
import shlex
from pathlib import Path

from cli.test_full_disk import namespace
from cli_kit import BRIDLE, Place
from cli_terminal import Sitting, at_terminal

PAUSED = "No space left: changes and commands are paused, reading works. They continue when there is room."


def full_after_first_call(place: Place) -> tuple[str, ...]:
    """`bridle` on a small disk that its first command fills; a file `free` in the working folder makes room again."""
    filling = place.home / "filling"
    fill = f"cat /dev/zero 2>/dev/null > {filling}; echo filled > filled; true"
    model = place.script(
        f"call bash {json.dumps({'command': fill})}\n---\n"
        'call read_file {"path": "it.script"}\ncall bash {"command": "echo ran > after"}\n---\nsay done with it\n'
    )
    home = shlex.quote(str(place.home))
    script = [
        f"mount -t tmpfs -o size=2m none {home}",
        f"(while [ ! -e free ]; do sleep 0.1; done; rm {home}/filling) &",
        shlex.join([*BRIDLE, "-s", "off", "-y", "-m", model, "go"]),
        "touch free; wait",
        f"{shlex.join([*BRIDLE, 'sessions', 'repair', '--check'])} > whole.txt",
    ]
    return ("/usr/bin/env", *namespace(place.home), "/bin/sh", "-c", "\n".join(script))


def sitting(place: Place) -> object:
    env = place.environment(TERM="xterm-256color")
    return at_terminal(*full_after_first_call(place), cwd=place.work, env=env)


def whole(place: Place) -> str:
    return Path(place.work / "whole.txt").read_text(encoding="utf-8")


def paused(person: Sitting, place: Place) -> None:
    person.sees("No space left: changes and commands are paused")
    assert (place.work / "filled").exists()
    assert not (place.work / "after").exists()


def test_a_change_waits_for_room_and_then_happens_once(place: Place) -> None:
    with sitting(place) as person:
        paused(person, place)
        (place.work / "free").touch()
        person.sees("There is room again", "done with it")
        person.types("/quit\r")
        person.ends()
    assert (place.work / "after").read_text() == "ran\n"
    assert whole(place).startswith("Everything is whole: 1 session,")


def test_whoever_will_not_wait_can_stop_and_leave(place: Place) -> None:
    with sitting(place) as person:
        paused(person, place)
        person.types("\x03")
        person.sees("stopped")
        person.types("/quit\r")
        person.ends()
    assert not (place.work / "after").exists()
    assert "whole" in whole(place)
