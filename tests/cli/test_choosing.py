"""Which model is asked: none that nobody chose, and the nearest word wins."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cli.test_talk import NO_MODEL, READY, Ollama, configure, leaves
from cli_kit import Place
from cli_terminal import sitting


def saved_model(place: Place, model: str) -> None:
    assert place.bridle("config", "set", "model", model).code == 0


@pytest.mark.requirement("D12.2")
def test_a_saved_model_ranks_below_an_option_and_what_is_chosen_in_the_session_above_it(place: Place) -> None:
    saved, option, chosen = (
        place.script(f"say This is the {name} one.\n---\nsay Again the {name} one.\n", f"{name}.script")
        for name in ("saved", "option", "chosen")
    )
    saved_model(place, saved)
    assert "the saved one" in place.bridle("run", "x").out
    with sitting(place, "-m", option, columns=300) as person:  # wide enough for a name wherever it lies
        person.sees("option.script", "--model", READY)
        person.types("hello\r")
        person.sees("This is the option one.", "1 step")
        person.types(f"/model {chosen}\r")
        person.sees("chosen.script\n")
        person.types("and now?\r")
        person.sees("Again the chosen one.")
        leaves(person)
    assert "the saved one" in place.bridle("run", "x").out, "neither of the two was saved"


@pytest.mark.requirement("C28")
async def test_no_vendor_is_a_default_what_is_usable_is_offered_and_the_choice_is_kept(place: Place) -> None:
    nothing = place.bridle("run", "x")
    assert (nothing.code, nothing.out) == (4, "")
    for named in ("--model", "BRIDLE_MODEL", "config", "key variables", "local servers", "--model demo"):
        assert named in nothing.err
    assert list(place.home.rglob("*")) == [], "nobody was asked and nothing was chosen"

    def without_anything() -> None:
        with sitting(place) as person:
            person.sees(
                NO_MODEL, "Paste an API key", "Use a local server", "See the demo", "or q to leave [3]"
            )
            person.types("q\r")
            assert person.ends() == 0

    def with_a_server_and_a_key() -> None:
        with sitting(place, OPENAI_API_KEY="k" * 12) as person:
            person.sees(NO_MODEL, "or q to leave [3]")
            offered = [line.split()[0:3] for line in person.text.splitlines() if line.startswith("  ")]
            assert offered == [["1", "Use", "Ollama"], ["2", "Use", "OpenAI"], ["3", "See", "the"]]
            person.types("1\r")
            person.sees("Use which? [1]")
            person.types("\r")
            person.sees("Saved: ollama:small:1b.", "model    ollama:small:1b", READY)
            person.types("hello\r")
            person.sees("Hi from here.", "1 step")
            leaves(person)

    await asyncio.to_thread(without_anything)
    async with Ollama("Hi from here.") as server:
        config = configure(place, server)
        await asyncio.to_thread(with_a_server_and_a_key)
        assert 'model = "ollama:small:1b"' in Path(config).read_text(encoding="utf-8")
        again = await asyncio.to_thread(place.bridle, "run", "x", env={"OPENAI_API_KEY": "k" * 12})
    assert (again.code, len(server.chats)) == (0, 2)
