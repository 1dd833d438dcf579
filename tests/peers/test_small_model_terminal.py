"""A conversation with a real small model at a real terminal: at every moment the screen says what is going on."""

from __future__ import annotations

import re
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from cli_kit import Place
from cli_terminal import Sitting, sitting

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SAMPLE_S = 0.05
UNEXPLAINED_S = 1.0
STATUS = re.compile(r"(working|thinking|writing|running|summarising|Stopping)\b")


class Moment(NamedTuple):
    """What the screen showed above the prompt, and when."""

    at_s: float
    line: str


class Watcher:
    """Somebody who looks at the screen all the time. `seen` is what stood there, with the time."""

    def __init__(self, person: Sitting) -> None:
        self.person = person
        self.seen: list[Moment] = []

    def says(self, words: str, *, stops_at: str | None = None, done: str = r"· \d+ steps?\b") -> None:
        """Types words and looks on until the turn is over, or stops it when the screen says it is at this."""
        person, turns = self.person, self._count(done)
        person.types(f"{words}\r")
        begun_s = time.monotonic()
        explained_s = begun_s
        while self._count(done) == turns:
            person.looks_for(SAMPLE_S)
            now_s = time.monotonic()
            *_, above, _prompt = ["", *person.text.splitlines()]
            self.seen.append(Moment(now_s - begun_s, above))
            if STATUS.match(above):
                explained_s = now_s
            assert now_s - explained_s < UNEXPLAINED_S, f"nothing was said for a second:\n{self.record}"
            assert now_s - begun_s < 120, f"no end:\n{self.record}"
            if stops_at is not None and above.startswith(stops_at):
                person.types("\x03")
                stops_at = None

    def _count(self, pattern: str) -> int:
        return len(re.findall(pattern, self.person.text, re.MULTILINE))

    @property
    def record(self) -> str:
        """What was seen, whenever it changed."""
        first = self.seen[:1]
        changed = [later for before, later in pairwise(self.seen) if later.line != before.line]
        return "\n".join(f"{moment.at_s:6.2f} s  {moment.line}" for moment in (*first, *changed))


@pytest.mark.requirement("D13.12")
def test_a_conversation_with_a_small_model_leaves_no_second_unexplained(
    small_model: str, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    section = f'[providers.small]\nbase_url = "{small_model}"\nlocal = true\n'
    (folder / "config.toml").write_text(section)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=place.work, check=True)
    with sitting(place, "-m", "small:model") as person:
        person.sees("(git", "main)", "Type what you want")
        watcher = Watcher(person)
        watcher.says("Say hello.")
        person.sees("it does not see the tools", "Choose another model: /model")
        watcher.says("!sleep 2; echo done", done=r"^ran +sleep")
        # A small model may be through before the key is heard: then its answer stands there.
        watcher.says(
            "Tell me a long story about a cart.", stops_at="writing", done=r"^stopped$|· \d+ steps?\b"
        )
        person.types("\x04")
        assert person.ends() == 0
        (tmp_path / "first.txt").write_text(watcher.record)
    with sitting(place, "-c") as person:
        person.sees('Back in "Say hello.", 2 turns so far.', "Type what you want")
        watcher = Watcher(person)
        watcher.says("And now?")
        (tmp_path / "resumed.txt").write_text(watcher.record)
