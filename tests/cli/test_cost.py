"""`--max-cost` and `bridle cost`: what is known is a number, what is not is a word."""

import asyncio
import json
import os

import pytest

from bridle.conformance.servers import ModelServer
from bridle.protocol.messages import Usage
from bridle.providers.script import Spend, answer, say
from cli_kit import Place, Ran

pytestmark = pytest.mark.through_engine(quick=False)

SPENT = Spend(Usage(input_tokens=20_000, cache_read_tokens=5_000, output_tokens=1_000))


def settings(place: Place, server: ModelServer) -> None:
    """Three providers at one server: one with a price, one without, one on this machine."""
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(
        "".join(f'[providers.{name}]\nbase_url = "{server.url}"\n' for name in ("paid", "dark", "here"))
        + "local = true\n"
        + '[models."paid:m"]\nprice_in = 2\nprice_out = 10\nprice_cache_read = 0.2\nmax_output_tokens = 4096\n'
    )


async def bridle(place: Place, *words: str) -> Ran:
    return await asyncio.to_thread(place.bridle, *words)


async def test_a_run_says_what_it_cost_and_the_sum_is_kept(place: Place) -> None:
    async with ModelServer.playing(answer(say("Hi."), SPENT)) as server:
        settings(place, server)
        paid = await bridle(place, "run", "-m", "paid:m", "--json", "one")
        dark = await bridle(place, "run", "-m", "dark:m", "--json", "two")
        here = await bridle(place, "run", "-m", "here:m", "--json", "three")
    assert paid.result["cost"] == {
        "usd": pytest.approx(0.051),
        "input_tokens": 20_000,
        "output_tokens": 1_000,
        "cache_read_tokens": 5_000,
        "cache_write_tokens": 0,
        "by_model": {"paid:m": pytest.approx(0.051)},
    }
    assert (dark.result["cost"]["usd"], here.result["cost"]["usd"]) == (None, 0)
    assert paid.story[-1].endswith(" · 1 step · $0.05")
    assert dark.story[-1].endswith(" · 1 step · cost unknown for this model")
    assert here.story[-1].endswith(" · 1 step · local")
    told = place.bridle("cost")
    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines() == [
        "model         in  cached       out  cost   in the last 7 days",
        "paid:m     25.0k     20%      1000  $0.05",
        "dark:m     25.0k     20%      1000  unknown",
        "here:m     25.0k     20%      1000  local",
        "total      75.0k     20%      3000  $0.05, unknown for 1 of 3 requests",
    ]
    by_day = place.bridle("cost", "--by", "day", "--since", "all").out.splitlines()
    assert len(by_day) == 2
    one = place.bridle("cost", "--session", paid.result["sessionId"]).out.splitlines()
    assert one[1] == "paid:m     25.0k     20%      1000  $0.05"
    assert len(one) == 2
    for_programs = json.loads(place.bridle("cost", "--by", "session", "--json").out)
    assert [row["unknown"] for row in for_programs["rows"]] == [0, 1, 0]
    assert for_programs["total"]["usd"] == pytest.approx(0.051)


DELEGATES = """call delegate_agent {"agent": "review", "task": "Look."}
usage in=4000 out=200
---
say Done.
usage in=5000 out=100
=== review
say Fine.
usage in=3000 out=50
"""


def test_the_cost_of_subagents_stands_in_a_row_of_its_own(place: Place) -> None:
    ran = place.bridle("run", "-m", place.script(DELEGATES), "--multi-agent", "go")
    assert ran.code == 0, ran.err
    assert place.bridle("cost", "--by", "purpose").out.splitlines() == [
        "purpose         in  cached       out  cost   in the last 7 days",
        "main          9000    none       300  local",
        "subagent      3000    none        50  local",
        "total        12.0k    none       350  local",
    ]
    found = json.loads(place.bridle("cost", "--by", "purpose", "--json").out)
    assert (found["by"], [row["name"] for row in found["rows"]]) == ("purpose", ["main", "subagent"])


def test_nothing_spent_is_said_and_nothing_is_made(place: Place) -> None:
    ran = place.bridle("cost")
    assert (ran.code, ran.out) == (0, "Nothing was paid or counted in the last 7 days.\n")
    assert os.listdir(place.home) == []
    wrong = place.bridle("cost", "--since", "yesterday")
    assert (wrong.code, wrong.story) == (
        2,
        ['"yesterday" is no span of time. Write --since 7d, 12h, 2w or all'],
    )


async def test_a_run_ends_before_the_request_that_could_cost_too_much(place: Place) -> None:
    async with ModelServer.playing(answer(say("Hi."), SPENT), say("Again.")) as server:
        settings(place, server)
        first = await bridle(place, "run", "-m", "paid:m", "--max-cost", "0.1", "one")
        second = await bridle(place, "run", "-c", "--max-cost", "0.1", "--json", "two")
        unkept = await bridle(place, "run", "-m", "dark:m", "--max-cost", "$2", "three")
        local = await bridle(place, "run", "-m", "here:m", "--max-cost", "0.01", "four")
    assert first.code == 0
    assert (second.code, second.result["exit_code"], second.result["reason"]) == (1, 1, "BudgetExceeded")
    (message,) = {second.result["error"]["message"]}
    assert message.startswith(
        "This session has used $0.05 of $0.10. The next request could cost $0.06, so it was"
    )
    assert unkept.code == 2
    assert "The cost of dark:m is unknown, so the limit of $2.00 cannot be kept." in unkept.err
    assert local.code == 0
    assert len(server.chats) == 2, "nothing was sent for the two that were stopped"


async def test_the_same_amount_reads_the_same_wherever_it_is_said(place: Place) -> None:
    """Seven tenths of a cent."""
    spent = Spend(Usage(input_tokens=2_500, output_tokens=200))
    async with ModelServer.playing(answer(say("Hi."), spent), say("Again.")) as server:
        settings(place, server)
        paid = await bridle(place, "run", "-m", "paid:m", "--max-cost", "0.05", "one")
        stopped = await bridle(place, "run", "-c", "--max-cost", "0.01", "two")
    assert paid.story[-1].endswith(" · $0.0070")
    assert "This session has used $0.0070 of $0.01." in stopped.err
    assert place.bridle("cost").out.splitlines()[1].endswith("  $0.0070")


@pytest.mark.parametrize("amount", ["0", "-1", "much", "nan", "inf"])
def test_a_limit_is_an_amount_above_zero(place: Place, amount: str) -> None:
    ran = place.bridle("run", "-m", "demo", f"--max-cost={amount}", "hi")
    assert ran.code == 2
    assert "is not an amount of dollars above 0" in ran.err


def test_a_project_may_lower_the_limit_and_say_nothing_of_prices(place: Place) -> None:
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("[budget]\nusd_per_session = 5\n")
    project = place.work / ".bridle"
    project.mkdir()
    file = project / "config.toml"
    file.write_text('[budget]\nusd_per_session = 2\n[models."paid:m"]\nprice_in = 0\nprice_out = 0\n')
    shown = place.bridle("config", "get", "budget.usd_per_session")
    assert shown.out == "2\n"
    ignored = place.bridle("config", "validate")
    assert "models.paid:m.price_in" in ignored.out + ignored.err
    file.write_text("[budget]\nusd_per_session = 50\n")
    assert place.bridle("config", "get", "budget.usd_per_session").out == "5\n"
