"""Programs of a project: each is asked about by itself, and where nobody can be asked none starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridle.clients.interaction.trust_question import trust_words
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Notice
from bridle.protocol.questions import AnyAnswer, AnyQuestion, TrustAnswer, TrustQuestion, WordsAnswer
from bridle.safety.trust.approvals import Approvals
from bridle.safety.trust.launches import Launch
from bridle.safety.trust.trust_items import Programs

USE = TrustAnswer(use=True)
SERVER = Launch(argv=("npx", "server"), program="/usr/bin/npx", program_digest="a" * 64)


class Person:
    """Answers what they were told to; None is nobody."""

    def __init__(self, folder: Path, answer: AnyAnswer | None) -> None:
        self.answer = answer
        self.asked: list[TrustQuestion] = []
        self.notices: list[Notice] = []
        self.programs = Programs(
            Approvals(str(folder)), root="/shop", ask=self._ask, notice=self.notices.append
        )

    async def _ask(self, _number: str, question: AnyQuestion) -> AnyAnswer | None:
        assert isinstance(question, TrustQuestion)
        self.asked.append(question)
        return self.answer

    async def lets_start(self, launch: Launch, name: str = "mcp_servers.git") -> bool:
        return await self.programs.may_start("mcp_server", name, launch, when="Bridle starts")


async def test_a_yes_holds_for_this_launch_in_this_place_and_no_other(tmp_path: Path):
    person = Person(tmp_path, USE)
    assert await person.lets_start(SERVER)
    assert await person.lets_start(SERVER)
    assert len(person.asked) == 1
    assert await person.lets_start(SERVER, name="mcp_servers.other")
    assert await person.lets_start(Launch(argv=("npx", "server", "--more"), program="/usr/bin/npx"))
    assert len(person.asked) == 3
    assert trust_words(person.asked[0]).title == (
        "This project wants to run a program when Bridle starts: npx server. It will run with your rights."
    )
    assert trust_words(person.asked[2]).warnings == ("! it changed since you trusted it",)


@pytest.mark.parametrize("answer", [TrustAnswer(use=False), WordsAnswer(text="use it")])
async def test_anything_but_use_it_starts_nothing_and_is_said(tmp_path: Path, answer: AnyAnswer):
    person = Person(tmp_path, answer)
    assert not await person.lets_start(SERVER)
    assert [notice.message for notice in person.notices] == [
        "mcp_servers.git is not trusted here and was not started."
    ]


async def test_where_nobody_is_it_refuses_with_the_reason(tmp_path: Path):
    with pytest.raises(CommandRefused) as refused:
        await Person(tmp_path, None).lets_start(SERVER)
    assert (refused.value.reason, refused.value.exit_code) == ("NonInteractiveAckRefused", 3)
    await Person(tmp_path, USE).lets_start(SERVER)
    assert await Person(tmp_path, None).lets_start(SERVER)
    with pytest.raises(CommandRefused) as refused:
        await Person(tmp_path, None).lets_start(Launch(argv=("npx", "server", "--more")))
    assert refused.value.reason == "HookHashChanged"
