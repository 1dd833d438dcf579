"""What a session costs, what it may cost, and which model answers when the chosen one cannot: over real wires."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from bridle.app.engine import Engine
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.harness import HarnessSession, of_kind
from bridle.conformance.servers import JsonServer, ModelServer
from bridle.protocol.commands import (
    AnswerQuestion,
    AskAside,
    CreateSession,
    SendInput,
    SessionOptions,
    SetModel,
)
from bridle.protocol.events import (
    AnyEvent,
    AsideAnswered,
    CostIncremented,
    Degraded,
    ModelChanged,
    Notice,
    PrefixSet,
    QuestionAsked,
    StepStarted,
    TurnEnded,
)
from bridle.protocol.messages import ImageBlock, TextBlock, Usage
from bridle.protocol.questions import BudgetAnswer, BudgetQuestion
from bridle.providers.script import Spend, answer, call, fail, say, think

KEY = "k" * 24
WIRES = ("openai_chat", "openai_responses", "anthropic")
SPENT = Spend(Usage(input_tokens=1000, output_tokens=100))
"""With the prices below: $0.002."""
PRICED = "price_in = 1\nprice_out = 10\nmax_output_tokens = 4096"


class Unhurried(SystemClock):
    """Waits between attempts take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/config").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


def provider(
    name: str, server: ModelServer | JsonServer, wire: str = "openai_chat", *, more: str = ""
) -> str:
    root = server.origin if wire == "anthropic" else f"{server.origin}/v1"
    return f'[providers.{name}]\nbase_url = "{root}"\nwire = "{wire}"\n{more}\n'


@asynccontextmanager
async def opened(
    home: Path, model: str, *settings: str, answers: bool = False, **options: Any
) -> AsyncIterator[HarnessSession]:
    """A session with these settings; the tables come behind the plain keys."""
    plain = [part for part in settings if not part.startswith("[")]
    tables = [part for part in settings if part.startswith("[")]
    (home / "config/config.toml").write_text("\n".join((*plain, *tables)))
    env = {"BRIDLE_HOME": str(home), "OPENAI_API_KEY": KEY, "OPENROUTER_API_KEY": KEY}
    engine = Engine(where=folders(env), env=env, clock=Unhurried())
    try:
        connection = engine.connect(name="test", answers=answers)
        folder = str(home.parent / "work")
        tools = {"PATH": os.defpath, "HOME": str(home)}
        created = await connection.send(
            CreateSession(cwd=folder, env=tools, model=model, config=SessionOptions(**options))
        )
        yield HarnessSession(engine, connection, created.session, folder=folder, home=str(home))
    finally:
        await engine.close()


def asked(events: list[AnyEvent]) -> list[str]:
    return [f"{event.provider}:{event.model}" for event in of_kind(events, StepStarted)]


def ending(events: list[AnyEvent]) -> tuple[str, str | None]:
    (ended,) = of_kind(events, TurnEnded)
    return ended.stop, ended.reason


# What it costs


@pytest.mark.parametrize("wire", WIRES)
async def test_every_usage_carries_its_price_in_dollars(home: Path, wire: str) -> None:
    spent = Spend(Usage(input_tokens=500, cache_read_tokens=2000, output_tokens=100))
    prices = f'[models."work:m"]\n{PRICED}\nprice_cache_read = 0.1'
    async with (
        ModelServer.playing(answer(say("Hi."), spent)) as server,
        opened(home, "work:m", provider("work", server, wire), prices) as session,
    ):
        (cost,) = of_kind(await session.ask("go"), CostIncremented)
    assert (cost.provider, cost.model) == ("work", "m")
    assert cost.usage == spent.usage
    assert cost.usd == pytest.approx(0.0005 + 0.0002 + 0.001)


async def test_a_price_nobody_knows_is_none_and_a_local_model_costs_nothing(home: Path) -> None:
    async with ModelServer.playing(answer(say("Hi."), SPENT)) as server:
        async with opened(home, "work:m", provider("work", server)) as session:
            (cost,) = of_kind(await session.ask("go"), CostIncremented)
            assert cost.usd is None
        async with opened(home, "work:m", provider("work", server, more="local = true")) as session:
            (cost,) = of_kind(await session.ask("go"), CostIncremented)
            assert cost.usd == 0


# What it may cost


@pytest.mark.requirement("G9.20")
async def test_a_request_that_could_cost_more_than_is_left_is_not_sent(home: Path) -> None:
    """A context of 6,000 tokens costs $0.006 to read again, which is more than is left of a cent."""
    large = Spend(Usage(input_tokens=6000, output_tokens=100))
    async with ModelServer.playing(answer(say("One."), large), say("Two.")) as server:
        prices = f'[models."work:m"]\n{PRICED}'
        async with opened(home, "work:m", provider("work", server), prices, max_cost=0.02) as session:
            first, second = await session.ask("one"), await session.ask("two")
    (cost,) = of_kind(first, CostIncremented)
    assert cost.usd == pytest.approx(0.007)
    assert ending(first) == ("end_turn", None)
    assert ending(second) == ("error", "BudgetExceeded")
    assert of_kind(second, TurnEnded)[0].message == (
        "This session has used $0.0070 of $0.02. The next request could cost $0.02, so it was not sent. "
        "Raise --max-cost or budget.usd_per_session to go on."
    )
    assert (asked(second), len(server.chats)) == ([], 1), "it was stopped before the call"


async def test_a_question_beside_the_work_is_paid_for_and_not_sent_beyond_the_limit(home: Path) -> None:
    async with ModelServer.playing(answer(say("Because."), SPENT)) as server:
        prices = f'[models."work:m"]\n{PRICED}'
        async with opened(home, "work:m", provider("work", server), prices, max_cost=1) as session:
            await session.connection.send(AskAside(session=session.id, question="why?"))
            assert (await session.until(AsideAnswered)).answer == "Because."
            assert session.conversation.spent_usd == pytest.approx(0.002)
        async with opened(home, "work:m", provider("work", server), prices, max_cost=0.01) as session:
            await session.connection.send(AskAside(session=session.id, question="why?"))
            assert (await session.until(AsideAnswered)).reason == "BudgetExceeded"
        assert len(server.chats) == 1


async def test_an_answer_is_limited_to_what_the_rest_pays_for(home: Path) -> None:
    async with ModelServer.playing(answer(say("One."), SPENT), say("Two.")) as server:
        prices = f'[models."work:m"]\n{PRICED}'
        async with opened(home, "work:m", provider("work", server), prices, max_cost=0.03) as session:
            first, second = await session.ask("one"), await session.ask("two")
            stored = await session.stored()
    assert [chat.json.get("max_tokens") for chat in server.chats] == [2048, 2048]
    assert [ending(first), ending(second)] == [("end_turn", None)] * 2
    limited = [one.event.parameters.max_tokens for one in stored if isinstance(one.event, PrefixSet)]
    assert limited == [None, 2048], "what was sent follows from the log"


async def test_every_attempt_and_every_model_passes_the_gate(home: Path) -> None:
    """The fallback is dearer: what it could cost counts, not what the first model would have cost."""
    dear = '[models."dear:m"]\nprice_in = 1000\nprice_out = 1000\nmax_output_tokens = 4096'
    async with AsyncExitStack() as stack:
        busy = await stack.enter_async_context(ModelServer.playing(fail("overloaded")))
        other = await stack.enter_async_context(ModelServer.playing(say("Dear.")))
        settings = (provider("work", busy), provider("dear", other), f'[models."work:m"]\n{PRICED}', dear)
        async with opened(home, "work:m", 'fallback_model = "dear:m"', *settings, max_cost=1) as session:
            events = await session.ask("go")
    assert ending(events) == ("error", "BudgetExceeded")
    assert (len(busy.chats), len(other.chats)) == (5, 0)


async def answered(
    session: HarnessSession, prompt: str, choice: Literal["raise", "cheaper", "unlimited", "stop"]
) -> tuple[BudgetQuestion, list[AnyEvent]]:
    """Sends a prompt, answers its question, and waits for the end."""
    number = await session.send(prompt)
    asked = await session.until(QuestionAsked, since=number)
    answer = BudgetAnswer(choice=choice)
    await session.connection.send(
        AnswerQuestion(session=session.id, question_id=asked.question_id, answer=answer)
    )
    assert isinstance(asked.question, BudgetQuestion)
    return asked.question, await session.turn_of(number)


async def test_a_person_may_raise_the_limit(home: Path) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        prices = f'[models."work:m"]\n{PRICED}'
        limit = "[budget]\nusd_per_session = 0.002"
        async with opened(home, "work:m", provider("work", server), prices, limit, answers=True) as session:
            question, events = await answered(session, "go", "raise")
    assert (question.reason, question.spent_usd, question.cap_usd) == ("BudgetExceeded", 0.0, 0.002)
    assert question.cap_usd < question.could_usd < 0.1
    assert question.raise_to_usd == 0.016
    assert (ending(events), len(server.chats)) == (("end_turn", None), 1)


async def test_a_person_may_stop_or_go_on_with_a_cheaper_model(home: Path) -> None:
    async with ModelServer.playing(say("Hi."), say("Again.")) as server:
        settings = (provider("openai", server), '[models."openai:gpt-5-mini"]\nmax_output_tokens = 1024')
        async with opened(home, "openai:gpt-5", *settings, answers=True, max_cost=0.012) as session:
            _, stopped = await answered(session, "go", "stop")
            assert (ending(stopped), len(server.chats)) == (("error", "BudgetExceeded"), 0)
            question, events = await answered(session, "go", "cheaper")
            again = await session.ask("and again")
    assert question.cheaper == "openai:gpt-5-mini"
    assert (asked(events), asked(again)) == (["openai:gpt-5-mini"], ["openai:gpt-5-mini"])
    assert (ending(events), len(server.chats)) == (("end_turn", None), 2)
    assert len(of_kind(events, ModelChanged)) == 1


async def test_a_limit_that_cannot_be_kept_is_no_limit_unless_a_person_says_so(home: Path) -> None:
    async with ModelServer.playing(say("Hi."), say("Again.")) as server:
        work = provider("work", server)
        async with opened(home, "work:m", work, max_cost=1) as session:
            events = await session.ask("go")
        assert (ending(events), len(server.chats)) == (("error", "PriceUnknown"), 0)
        assert of_kind(events, TurnEnded)[0].message == (
            "The cost of work:m is unknown, so the limit of $1.00 cannot be kept. Say what it costs, in dollars for "
            'a million tokens: models."work:m".price_in and price_out. Or leave the limit out.'
        )
        async with opened(home, "work:m", work, max_cost=1, answers=True) as session:
            _, events = await answered(session, "go", "unlimited")
            again = await session.ask("again")
    assert (ending(events), ending(again)) == (("end_turn", None), ("end_turn", None)), "it is asked once"


async def test_a_limit_never_stops_what_runs_on_this_machine(home: Path) -> None:
    async with ModelServer.playing(say("Hi.")) as server:
        work = provider("work", server, more="local = true")
        async with opened(home, "work:m", work, max_cost=0.000001) as session:
            events = await session.ask("go")
    assert ending(events) == ("end_turn", None)


async def test_what_was_spent_counts_after_a_session_is_opened_again(home: Path) -> None:
    large = Spend(Usage(input_tokens=6000, output_tokens=100))
    prices = f'[models."work:m"]\n{PRICED}'
    async with ModelServer.playing(answer(say("One."), large), say("Two.")) as server:
        work = provider("work", server)
        async with opened(home, "work:m", work, prices, max_cost=0.02) as session:
            await session.ask("one")
            again = CreateSession(cwd=session.folder, resume=session.id, config=SessionOptions(max_cost=0.02))
        env = {"BRIDLE_HOME": str(home)}
        engine = Engine(where=folders(env), env=env, clock=Unhurried())
        try:
            connection = engine.connect(name="test", answers=False)
            created = await connection.send(again)
            resumed = HarnessSession(engine, connection, created.session, folder="", home="")
            assert ending(await resumed.ask("two")) == ("error", "BudgetExceeded")
        finally:
            await engine.close()


# Another model


PAIRS = [(one, other) for one in WIRES for other in WIRES]


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_an_overloaded_model_is_replaced_for_the_rest_of_the_turn(
    home: Path, first: str, second: str
) -> None:
    async with AsyncExitStack() as stack:
        busy = await stack.enter_async_context(
            ModelServer.playing(answer(think("Hm."), say("One.")), fail("overloaded", times=5), say("Three."))
        )
        other = await stack.enter_async_context(ModelServer.playing(say("?"), say("Two.")))
        work, spare = provider("work", busy, first), provider("spare", other, second)
        async with opened(home, "work:m", 'fallback_model = "spare:n"', work, spare) as session:
            before = await session.ask("one")
            events = await session.ask("two")
    assert asked(before) == ["work:m"]
    assert asked(events)[-1] == "spare:n"
    assert asked(events)[:-1] == ["work:m"] * (len(asked(events)) - 1)
    (notice,) = of_kind(events, Notice)
    assert (notice.reason, notice.message) == (
        "FallbackModel",
        "work is overloaded; continuing this turn with spare:n (fallback).",
    )
    assert ending(events) == ("end_turn", None)
    assert (len(busy.chats), len(other.chats)) == (6, 1)
    (changed,) = of_kind(events, ModelChanged)
    assert changed.holds == "this_turn"


async def test_the_next_turn_asks_the_chosen_model_again_and_the_fallback_only_once(home: Path) -> None:
    async with AsyncExitStack() as stack:
        busy = await stack.enter_async_context(
            ModelServer.playing(fail("rate_limited", times=5), say("Back."))
        )
        other = await stack.enter_async_context(ModelServer.playing(say("Spare."), fail("overloaded")))
        work, spare = provider("work", busy), provider("spare", other)
        async with opened(home, "work:m", 'fallback_model = "spare:n"', work, spare) as session:
            first, second = await session.ask("one"), await session.ask("two")
    assert asked(first)[-1] == "spare:n"
    assert asked(second) == ["work:m"]
    async with ModelServer.playing(fail("overloaded")) as busy:
        both = (provider("work", busy), provider("spare", busy))
        async with opened(home, "work:m", 'fallback_model = "spare:n"', *both) as session:
            events = await session.ask("go")
    assert (ending(events), len(busy.chats)) == (("error", "Overloaded"), 10)


async def test_a_failure_that_another_model_would_not_mend_is_no_reason_to_change(home: Path) -> None:
    async with AsyncExitStack() as stack:
        refusing = await stack.enter_async_context(ModelServer.playing(fail("bad_credentials")))
        other = await stack.enter_async_context(ModelServer.playing(say("Spare.")))
        work, spare = provider("work", refusing), provider("spare", other)
        async with opened(home, "work:m", 'fallback_model = "spare:n"', work, spare) as session:
            events = await session.ask("go")
    assert (ending(events), len(other.chats)) == (("error", "BadCredentials"), 0)


@pytest.mark.parametrize(("first", "second"), [pair for pair in PAIRS if pair[0] != pair[1]])
async def test_another_model_goes_on_with_the_conversation_over_another_wire(
    home: Path, first: str, second: str
) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(ModelServer.playing(answer(think("Hm."), say("Mellon."))))
        two = await stack.enter_async_context(ModelServer.playing(say("?"), say("Two.")))
        settings = (provider("one", one, first), provider("two", two, second))
        async with opened(home, "one:m", *settings) as session:
            await session.ask("first")
            await session.connection.send(SetModel(session=session.id, model="two:n"))
            events = await session.ask("second")
    assert (asked(events), ending(events)) == (["two:n"], ("end_turn", None))
    (request,) = two.chats
    assert b"Mellon." in request.body
    assert b"Hm." not in request.body, "a thought of another family is not shown"


# What a model can do


async def test_images_and_tools_are_refused_before_the_request_where_the_model_takes_none(home: Path) -> None:
    picture = ImageBlock(url="data:image/png;base64,iVBORw0KGgo=")
    async with ModelServer.playing(say("Hi.")) as server:
        work = provider("work", server)
        async with opened(home, "work:m", work, '[models."work:m"]\nimages = false') as session:
            sent = await session.connection.send(
                SendInput(session=session.id, content=(TextBlock(text="Look"), picture), mode="queue")
            )
            assert sent.event is not None
            events = await session.turn_of(sent.event)
        assert ending(events) == ("error", "NoImages")
        async with opened(home, "work:m", work, '[models."work:m"]\ntools = false') as session:
            events = await session.ask("go")
        assert ending(events) == ("error", "NoTools")
        assert of_kind(events, TurnEnded)[0].message == (
            "work:m cannot use tools, and Bridle works through tools. Choose another model: /model"
        )
        assert server.chats == []


# Servers on this machine


def ollama(served: int | None, *, loaded: bool, prompt_tokens: int = 6000) -> dict[str, Any]:
    running = [{"name": "qwen3:8b", "context_length": served}] if loaded else []
    return {
        "GET /api/ps": {"models": running},
        "POST /api/show": {
            "capabilities": ["completion", "tools"],
            "model_info": {"qwen3.context_length": 40960},
        },
        "POST /v1/chat/completions": {
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 10},
        },
    }


async def test_a_small_context_of_a_local_server_is_said_once(home: Path) -> None:
    async with (
        JsonServer(ollama(4096, loaded=True)) as server,
        opened(home, "ollama:qwen3:8b", provider("ollama", server)) as session,
    ):
        first, second = await session.ask("one"), await session.ask("two")
        window = session.engine.opening.known_of[session.id].window_of("ollama:qwen3:8b")
    (warning,) = of_kind([*first, *second], Degraded)
    lines = warning.message.splitlines()
    assert (warning.what, warning.reason) == ("context", "SmallContext")
    assert lines[0].startswith(
        "Ollama serves this model with a 4,096-token context. Bridle's first request needs about "
    )
    assert (
        lines[1] == "Raise it (OLLAMA_CONTEXT_LENGTH=32768, then restart Ollama) or expect early summaries."
    )
    assert window == 4096
    assert ending(first) == ("end_turn", None)


async def test_a_server_that_knows_its_context_only_once_the_model_is_loaded_is_asked_again(
    home: Path,
) -> None:
    answers = ollama(4096, loaded=True)
    asked_before = iter([{"models": []}])
    running = answers["GET /api/ps"]
    answers["GET /api/ps"] = lambda _request: next(asked_before, running)
    async with (
        JsonServer(answers) as server,
        opened(home, "ollama:qwen3:8b", provider("ollama", server)) as session,
    ):
        events = await session.ask("one")
    assert [event.reason for event in of_kind(events, Degraded)] == ["SmallContext"]


@pytest.mark.parametrize(("counted", "told"), [(500, True), (2000, False), (7, False)])
async def test_a_local_model_whose_server_leaves_the_tools_out_is_told_once(
    home: Path, counted: int, told: bool
) -> None:
    """It counted far fewer tokens than were sent; one that counts nothing worth the name says nothing."""
    async with (
        JsonServer(ollama(40960, loaded=True, prompt_tokens=counted)) as server,
        opened(home, "ollama:qwen3:8b", provider("ollama", server)) as session,
    ):
        events = [*await session.ask("one"), *await session.ask("two")]
    warnings = of_kind(events, Degraded)
    assert [(warning.what, warning.reason) for warning in warnings] == [("tools", "ToolsUnseen")] * told
    if told:
        assert warnings[0].message.startswith("qwen3:8b counted 50")
        assert warnings[0].message.endswith("Choose another model: /model")


# Published prices


@pytest.mark.requirement("G11.3")
async def test_published_prices_are_fetched_once_a_day_and_feed_the_cost(home: Path) -> None:
    listing = {
        "data": [
            {
                "id": "vendor/model",
                "context_length": 100_000,
                "pricing": {"prompt": "0.000001", "completion": "0.00001"},
                "architecture": {"input_modalities": ["text"]},
                "supported_parameters": ["tools"],
            }
        ]
    }
    chat = {
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
    }
    async with JsonServer({"GET /v1/models": listing, "POST /v1/chat/completions": chat}) as server:
        for _ in range(2):
            async with opened(home, "openrouter:vendor/model", provider("openrouter", server)) as session:
                (cost,) = of_kind(await session.ask("go"), CostIncremented)
                assert cost.usd == pytest.approx(0.002)
                assert (
                    session.engine.opening.known_of[session.id].window_of("openrouter:vendor/model")
                    == 100_000
                )
        paths = [request.path for request in server.requests]
        assert paths == ["/v1/models", "/v1/chat/completions", "/v1/chat/completions"]
        titles = [request.headers.get("x-title") for request in server.requests]
        assert titles == ["Bridle"] * 3


# What agents cost that are sent


DEAR = Spend(Usage(input_tokens=6000, output_tokens=400))
SENT = (call("delegate_agent", agent="explore", task="Look."), answer(call("glob", pattern="*"), DEAR))
"""Played to each conversation from the start: a child is told that it has no such tool, and goes on."""


async def test_what_a_child_spends_counts_and_ends_the_whole_tree_at_the_limit(home: Path) -> None:
    async with ModelServer.playing(*SENT) as server:
        prices, options = f'[models."work:m"]\n{PRICED}', {"max_cost": 0.02, "agent_mode": "multi"}
        async with opened(home, "work:m", provider("work", server), prices, **options) as session:
            events = await session.ask("go")
    ends = [(end.stop, end.reason) for end in of_kind(events, TurnEnded)]
    assert ends == [("error", "BudgetExceeded")] * 2
    assert len(server.chats) == 3


async def test_a_limit_that_a_person_raised_for_a_child_is_raised_for_all(home: Path) -> None:
    async with ModelServer.playing(*SENT, say("Done.")) as server:
        prices = f'[models."work:m"]\n{PRICED}'
        options = {"max_cost": 0.02, "agent_mode": "multi", "answers": True}
        async with opened(home, "work:m", provider("work", server), prices, **options) as session:
            number = await session.send("go")
            asked = await session.until(QuestionAsked)
            raised = AnswerQuestion(
                session=session.id, question_id=asked.question_id, answer=BudgetAnswer(choice="raise")
            )
            await session.connection.send(raised)
            events = await session.turn_of(number)
    assert len(of_kind(events, QuestionAsked)) == 1
    assert [end.stop for end in of_kind(events, TurnEnded)] == ["end_turn"] * 2
