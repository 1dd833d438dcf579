"""Compaction in whole sessions: before requests, after refusals, by a person; and the bytes that follow from it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import RecordingModel, scripted
from bridle.conformance.harness import HarnessSession, harness, of_kind
from bridle.context.compaction_layer import UNKNOWN_WINDOW, CompactionSettings, Compactor, CompactorNeeds
from bridle.context.summaries import HEADER
from bridle.engine.aside import BESIDE
from bridle.engine.conversation import Conversation
from bridle.engine.ports import ModelDone, ModelPart, ModelRequest, ModelText, Provider, Wire
from bridle.engine.steps import encode
from bridle.protocol import events as e
from bridle.protocol.commands import CancelTurn, RunSlash
from bridle.protocol.errors import CommandRefused, ProviderError
from bridle.protocol.messages import ToolResultBlock, ToolUseBlock, Usage
from bridle.providers.anthropic import AnthropicWire
from bridle.providers.endpoints import Quirks
from bridle.providers.openai_chat import ChatWire
from bridle.providers.openai_responses import ResponsesWire
from bridle.providers.script import Spend, answer, call, say
from bridle.providers.scripted import ScriptedWire
from tables import table

LONG = "word " * 800  # about 1,000 tokens
SMALL = ("context.max_tokens=12000",)
TOO_LONG = ProviderError("ContextTooLong", provider="work", model="scripted", problem="too many tokens")


class Model:
    """Answers as `inner` does, over any wire; requests beside the conversation get what `aside` gives."""

    def __init__(
        self,
        inner: Provider,
        *,
        aside: Callable[[], AsyncIterator[ModelPart]] | None = None,
        wire: Wire | None = None,
        refuses: Callable[[ModelRequest], bool] = lambda _request: False,
    ) -> None:
        self._inner = inner
        self._aside = aside
        self._refuses = refuses
        self.wire = wire or inner.wire
        self.name = "work"
        self.asked: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        if request.step == BESIDE:
            assert self._aside is not None, "nobody expected a question beside the conversation"
            self.asked.append(request)
            return self._aside()
        if self._refuses(request):
            return raising(TOO_LONG)
        return self._inner.stream(request)


async def raising(error: Exception) -> AsyncIterator[ModelPart]:
    raise error
    yield


def answering(*parts: ModelPart) -> Callable[[], AsyncIterator[ModelPart]]:
    async def stream() -> AsyncIterator[ModelPart]:
        for part in parts:
            yield part

    return stream


SUMMARY = answering(
    ModelText("We look at "), ModelText("carts."), ModelDone("end_turn", Usage(output_tokens=9))
)


def windows(home: Path, tokens: int = 16_000) -> str:
    """A home where the window of the model is known."""
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text(
        f'[models."work:scripted"]\ncontext_tokens = {tokens}\nprice_in = 1\nprice_out = 2\n'
    )
    return str(home)


def looks(times: int) -> list[Any]:
    """Steps of a long tool loop, each with another command and about 250 tokens of output."""
    return [call("bash", command=f"printf '%01000d' {number}") for number in range(times)]


async def slash(session: HarnessSession, name: str, words: str = "") -> e.AnyEvent:
    since = session.conversation.last_id
    await session.connection.send(RunSlash(session=session.id, name=name, arguments=words))
    async for envelope in session.connection.events(session.id, since=since):
        match envelope.event:
            case e.Compacted() | e.Notice(reason="NothingToCompact" | "Usage") as event:
                return event
            case e.ContextAdded(source="pin") as event if name == "pin":
                return event
            case _:
                pass
    raise AssertionError("the session ended")


def texts(session: HarnessSession) -> list[str]:
    return [getattr(message.content[0], "text", "") for message in session.conversation.messages]


@pytest.mark.requirement("D7.20", "H5.1", "H5.3", "T10.3", "G9.6", "H5.2")
async def test_before_a_request_that_would_be_too_long_earlier_turns_become_a_summary():
    model = RecordingModel(Model(scripted(*[say("fine")] * 20)))
    async with harness(model, sets=(*SMALL, "context.recent_turns=2")) as session:
        turns = [await session.ask(f"question {number} {LONG}") for number in range(8)]
        found = [of_kind(turn, e.Compacted) for turn in turns]
        assert [len(made) for made in found].count(1) == sum(map(len, found)) >= 1
        first = next(made[0] for made in found if made)
        assert first.tokens_before >= 12_000 * 0.7 > first.tokens_after
        assert (first.by, first.why, first.dropped.first_turn) == ("deterministic", "limit", 1)
        assert first.summary.startswith(f"{HEADER}\n\nTurn 1\nasked: question 0 word")
        summaries = [text for text in texts(session) if text.startswith(HEADER)]
        assert len(summaries) == 1
        recent = [text[:10] for text in texts(session) if text.startswith("question")]
        assert recent[-2:] == ["question 6", "question 7"]
        prefix = session.conversation.prefix
        assert prefix is not None
        head = model.wire.head(prefix)
    assert all(body.startswith(head) for body in model.bodies), "the system text is always there"


async def test_a_provider_that_reports_five_tokens_for_everything_is_not_believed():
    liar = answer(say("fine"), Spend(Usage(input_tokens=4, output_tokens=1)))
    async with harness(Model(scripted(*[liar] * 20)), sets=(*SMALL, "context.recent_turns=2")) as session:
        turns = [await session.ask(f"question {number} {LONG}") for number in range(12)]
    made = [one for turn in turns for one in of_kind(turn, e.Compacted)]
    assert made
    assert {one.why for one in made} == {"limit"}


@pytest.mark.requirement("D7.21")
async def test_every_request_and_every_compaction_leave_an_event():
    model = RecordingModel(Model(scripted(*looks(30), say("done"))))
    async with harness(model, mode="auto", sets=SMALL) as session:
        events = await session.ask("look at everything")
    assert len(of_kind(events, e.StepStarted)) == len(model.bodies) == 31
    assert of_kind(events, e.Compacted)
    assert of_kind(events, e.TurnEnded)[0].stop == "end_turn"


@pytest.mark.requirement("H5.4", "D7.22")
async def test_results_that_went_read_as_compacted_and_no_call_is_without_one():
    model = RecordingModel(Model(scripted(*looks(40), say("fine"))))
    async with harness(model, mode="auto", sets=SMALL) as session:
        events = await session.ask("look at everything")
        messages = session.conversation.messages
        assert session.conversation.prefix is not None
        head = model.wire.head(session.conversation.prefix)
    assert of_kind(events, e.Compacted)[0].by == "deterministic"
    assert any(b'"[compacted]"' in body for body in model.bodies)
    assert all(body.startswith(head) for body in model.bodies), "the system text is always there"
    blocks = [block for message in messages for block in message.content]
    calls = [block.wire_id for block in blocks if isinstance(block, ToolUseBlock)]
    results = [block.wire_id for block in blocks if isinstance(block, ToolResultBlock)]
    assert calls == results
    kept = of_kind(events, e.ToolResult)[-1].content
    assert kept.encode() in model.bodies[-1], "the newest result stays whole"


@table("wire", [ScriptedWire(), ChatWire(Quirks()), ResponsesWire(Quirks()), AnthropicWire(Quirks())])
async def test_every_request_is_the_fold_of_the_log_and_begins_as_the_one_before_between_compactions(
    wire: Wire,
):
    model = RecordingModel(Model(scripted(*looks(40), *[say("fine")] * 9), wire=wire))
    async with harness(model, mode="auto", sets=SMALL) as session:
        await session.ask("look at everything")
        for number in range(4):
            await session.ask(f"question {number} {LONG}")
        stored = await session.stored()
    bodies: list[bytes] = []
    compacted_before: list[bool] = []
    conversation, compactions = Conversation(), 0
    for envelope in stored:
        if envelope.kind == "StepStarted":
            bodies.append(encode(conversation, wire))
            compacted_before.append(compactions > 0)
            compactions = 0
        compactions += envelope.kind == "Compacted"
        conversation.apply(envelope)
        if (kept := conversation.folded()) is not None:
            conversation = Conversation.restored(kept)
    assert bodies == model.bodies
    assert sum(compacted_before) >= 2
    end = len(wire.tail(conversation.prefix))
    for (before, after), compacted in zip(pairwise(bodies), compacted_before[1:], strict=True):
        assert after.startswith(before[:-end]) is not compacted


@pytest.mark.requirement("H5.6")
async def test_where_the_window_is_known_the_model_writes_the_summary_and_it_is_paid_for(tmp_path: Path):
    model = Model(scripted(*[say("fine")] * 20), aside=SUMMARY)
    async with harness(model, home=windows(tmp_path / "home")) as session:
        turns = [await session.ask(f"question {number} {LONG}") for number in range(9)]
    events = [event for turn in turns for event in turn]
    (made,) = of_kind(events, e.Compacted)
    assert (made.by, made.summary) == ("model", f"{HEADER}\n\nWe look at carts.")
    (cost,) = of_kind(events, e.CostIncremented)
    assert cost.usd == pytest.approx(9 * 2 / 1_000_000)
    asked = msgspec.json.decode(model.asked[0].body)
    assert asked["tools"] == []
    assert asked["system"].startswith("You write down")
    (message,) = asked["messages"]
    assert "<untrusted-transcript>Person: question 0" in message["content"][0]["text"]


@pytest.mark.requirement("H5.6")
@pytest.mark.parametrize(
    "aside",
    [
        lambda: raising(ProviderError("Overloaded", retryable=True, provider="work")),
        answering(ModelText("cut off")),
        answering(ModelDone("end_turn")),
        answering(ModelText("   "), ModelDone("end_turn")),
        answering(ModelText("half"), ModelDone("max_tokens")),
        answering(ModelText("long " * 20_000), ModelDone("end_turn")),
        answering(ModelDone("content_filter")),
    ],
)
async def test_whatever_goes_wrong_with_the_models_summary_there_is_one(tmp_path: Path, aside):
    model = Model(scripted(*[say("fine")] * 20), aside=aside)
    async with harness(model, home=windows(tmp_path / "home")) as session:
        turns = [await session.ask(f"question {number} {LONG}") for number in range(9)]
        (made,) = [event for turn in turns for event in of_kind(turn, e.Compacted)]
        assert made.by == "deterministic"
        assert "asked: question 0" in made.summary
        assert len(model.asked) == 1
        assert turns[-1][-1].stop == "end_turn"


async def test_a_summary_that_takes_too_long_is_written_without_the_model(tmp_path: Path):
    clock = FakeClock()

    async def silent() -> AsyncIterator[ModelPart]:
        await clock.sleep(100_000)
        yield ModelText("too late")

    model = Model(scripted(*[say("fine")] * 20, clock=clock), aside=silent)
    made: list[e.Compacted] = []
    async with harness(model, home=windows(tmp_path / "home"), clock=clock) as session:
        for number in range(8):
            turn = asyncio.ensure_future(session.ask(f"question {number} {LONG}"))
            while not turn.done():
                await clock.advance(10)
            made += of_kind(turn.result(), e.Compacted)
    assert len(model.asked) == 1
    assert [event.by for event in made] == ["deterministic"]


@pytest.mark.parametrize("setting", ["context.summary=deterministic", "budget.usd_per_session=0.0145"])
async def test_the_model_is_not_asked_where_settings_or_the_budget_say_no(tmp_path: Path, setting: str):
    model = Model(scripted(*[say("fine")] * 20))
    async with harness(model, home=windows(tmp_path / "home"), sets=(setting,)) as session:
        for number in range(8):
            await session.ask(f"question {number} {LONG}")
        stored = await session.stored()
    made = of_kind([envelope.event for envelope in stored], e.Compacted)
    assert [event.by for event in made] == ["deterministic"]


async def test_hooks_hear_of_a_compaction_and_stopping_it_leaves_the_conversation_as_it_was(tmp_path: Path):
    home = windows(tmp_path / "home")
    heard = tmp_path / "heard"
    with (tmp_path / "home/config/config.toml").open("a") as file:
        file.write(f'[[hooks]]\nevent = "Compact"\ncommand = "cat > {heard}"\n')
    waiting = asyncio.Event()

    async def silent() -> AsyncIterator[ModelPart]:
        waiting.set()
        await asyncio.get_running_loop().create_future()
        yield ModelText("never")

    async with harness(Model(scripted(*[say("fine")] * 20), aside=silent), home=home) as session:
        for number in range(4):
            await session.ask(f"question {number} {LONG}")
        before = list(session.conversation.messages)
        await session.connection.send(RunSlash(session=session.id, name="compact"))
        await waiting.wait()
        assert msgspec.json.decode(heard.read_bytes())["reason"] == "asked"
        await session.connection.send(CancelTurn(session=session.id))
        assert (await session.until(e.Cancelled)).by == session.connection.client
        await session.ask("go on")
        assert session.conversation.messages[: len(before)] == before


async def test_a_request_the_provider_refuses_as_too_long_is_compacted_and_tried_once_more():
    refused: list[int] = []

    def refuses(request: ModelRequest) -> bool:
        if len(request.body) > 16_000 + 12_000:
            refused.append(len(request.body))
        return len(request.body) > 16_000 + 12_000

    model = Model(scripted(*[say("fine")] * 20), refuses=refuses)
    async with harness(model) as session:
        turns = [await session.ask(f"question {number} {LONG}") for number in range(6)]
    events = [event for turn in turns for event in turn]
    made = of_kind(events, e.Compacted)
    assert made[0].why == "refused"
    assert all(event.by == "deterministic" for event in made)
    assert [event.reason for event in of_kind(events, e.StepFailed)] == ["ContextTooLong"] * len(refused)
    assert all(turn[-1].stop == "end_turn" for turn in turns)


async def test_a_second_refusal_ends_the_turn():
    model = Model(scripted(say("fine"), say("fine")), refuses=lambda request: request.answers > 0)
    async with harness(model) as session:
        await session.ask(f"one {LONG}")
        events = await session.ask(f"two {LONG}")
    assert len(of_kind(events, e.StepFailed)) <= 2
    assert events[-1].reason == "ContextTooLong"


@pytest.mark.requirement("G45.10", "T10.4", "H5.5")
async def test_a_person_compacts_when_they_like_and_pinned_words_stay():
    model = RecordingModel(Model(scripted(*[say("fine")] * 20)))
    async with harness(model) as session:
        for number in range(4):
            await session.ask(f"question {number} {LONG}")
        await slash(session, "pin", "never touch main")
        made = await slash(session, "compact", "the rounding error")
        assert isinstance(made, e.Compacted)
        assert (made.why, made.pins, made.dropped.first_turn) == ("asked", 2, 1)
        assert made.tokens_after < made.tokens_before
        assert made.dropped.messages + made.kept.messages + len(made.also_kept) == 10
        words = [block.text for message in session.conversation.messages for block in message.content]
        assert {"never touch main", "the rounding error"} <= set(words)
        again = await slash(session, "compact")
        assert isinstance(again, e.Notice)
        await session.ask("go on")
    sent = model.bodies[-1].decode()
    assert "never touch main" in sent
    assert "/compact" not in sent


async def test_whoever_compacts_twice_keeps_what_the_first_summary_tells():
    long = ("red", "green", "grey", "pink", "black")
    script = [*(say(f"{word} {LONG}") for word in long), say(f"blue {'word ' * 300}")]
    async with harness(Model(scripted(*script))) as session:
        for number in range(len(script)):
            await session.ask(f"question {number}")
        first = await slash(session, "compact", "the rounding error")
        assert isinstance(first, e.Compacted)
        assert all(word in first.summary for word in long)
        second = await slash(session, "compact")
        assert isinstance(second, e.Compacted)
        assert all(word in second.summary for word in (*long, "blue"))


@pytest.mark.requirement("D7.24")
async def test_compact_waits_for_nobody_and_says_when_there_is_too_little():
    async with harness(Model(scripted(say("fine"), call("ask_user", question="?"))), answers=True) as session:
        nothing = await slash(session, "compact")
        assert nothing == e.Notice(reason="NothingToCompact", message="There is too little to summarise yet.")
        await session.ask("hello")
        kept = await slash(session, "compact", "be brief")
        assert kept.message.endswith("Your words are pinned.")
        await session.send("ask me")
        await session.until(e.QuestionAsked)
        with pytest.raises(CommandRefused) as refused:
            await session.connection.send(RunSlash(session=session.id, name="compact"))
        assert refused.value.reason == "TurnInProgress"


async def test_a_resumed_session_goes_on_from_the_summary(tmp_path: Path):
    home, folder = str(tmp_path / "home"), tmp_path / "work"
    folder.mkdir()
    first = RecordingModel(Model(scripted(*[say("fine")] * 20)))
    async with harness(first, home=home, folder=str(folder)) as session:
        for number in range(4):
            await session.ask(f"question {number} {LONG}")
        await slash(session, "compact")
        live = session.conversation
    second = RecordingModel(Model(scripted(*[say("fine")] * 20)))
    async with harness(second, home=home, folder=str(folder), resume=session.id) as again:
        assert again.conversation.entries == live.entries
        await again.ask("and now?")
    assert b"question 1 word" not in second.bodies[0].partition(b"asked: question 1")[0]


@pytest.mark.requirement("G34.9")
async def test_a_resumed_session_reads_no_further_back_than_the_turn_that_compacted(tmp_path: Path):
    home, folder = str(tmp_path / "home"), tmp_path / "work"
    folder.mkdir()
    model = RecordingModel(Model(scripted(*[say("fine")] * 20)))
    sets = (*SMALL, "context.recent_turns=2")
    async with harness(model, home=home, folder=str(folder), sets=sets) as session:
        await session.ask(f"question 0 {LONG}")
        assert session.engine.store.fold(session.id) is None
        turns = [await session.ask(f"question {number} {LONG}") for number in range(1, 8)]
        assert any(of_kind(turn, e.Compacted) for turn in turns)
        stored = await session.stored()
    folded = max(envelope.id or 0 for envelope in stored if isinstance(envelope.event, e.Compacted))
    ended = min(
        envelope.id or 0
        for envelope in stored
        if envelope.kind == "TurnEnded" and (envelope.id or 0) > folded
    )
    second = RecordingModel(Model(scripted(*[say("fine")] * 20)))
    async with harness(second, home=home, folder=str(folder), resume=session.id, sets=sets) as again:
        kept = again.engine.store.fold(session.id)
        assert kept is not None
        assert Conversation.restored(kept).last_id >= ended
        assert again.conversation.entries == Conversation.of(stored).entries
        await again.ask("and now?")
    assert HEADER.encode() in second.bodies[0]


@pytest.mark.requirement("D7.23")
async def test_compact_rewrites_the_history_at_once_and_no_model_hears_of_it():
    """Nobody knows the window of this model, so it is asked for nothing: `Model` would fail."""
    model = RecordingModel(Model(scripted(*[say("fine")] * 20)))
    async with harness(model) as session:
        skipped = await slash(session, "compact")
        assert isinstance(skipped, e.Notice)
        for number in range(4):
            await session.ask(f"question {number} {LONG}")
        requests, inputs = len(model.bodies), await session.stored()
        made = await slash(session, "compact")
        assert isinstance(made, e.Compacted)
        assert (made.why, made.by) == ("asked", "deterministic")
        assert [text for text in texts(session) if text.startswith(HEADER)]
        new = (await session.stored())[len(inputs) :]
        assert len(model.bodies) == requests
    assert not {"InputAccepted", "TurnStarted", "StepStarted"} & {envelope.kind for envelope in new}


@pytest.mark.requirement("C14")
async def test_a_limit_that_is_off_compacts_nothing_but_what_the_provider_refused():
    refusals = iter((False,) * 9 + (True,) + (False,) * 9)
    model = Model(scripted(*[say("fine")] * 40), refuses=lambda _request: next(refusals))
    async with harness(model, sets=("context.max_tokens=off",)) as session:
        turns = [await session.ask(f"question {number} {LONG * 8}") for number in range(10)]
        assert session.conversation.counted is None
    found = [[event.why for event in of_kind(turn, e.Compacted)] for turn in turns]
    assert found == [[]] * 9 + [["refused"]]


@pytest.mark.requirement("C14")
async def test_the_model_writes_the_summary_where_settings_say_so_although_nobody_knows_its_window():
    model = Model(scripted(*[say("fine")] * 20), aside=SUMMARY)
    sets = (*SMALL, "context.summary=model", "context.recent_turns=2")
    async with harness(model, sets=sets) as session:
        turns = [await session.ask(f"question {number} {LONG}") for number in range(8)]
    made = [event for turn in turns for event in of_kind(turn, e.Compacted)]
    assert made
    assert {event.by for event in made} == {"model"}


@pytest.mark.requirement("C14")
async def test_the_preset_that_counts_messages_keeps_ten_of_a_hundred():
    model = Model(scripted(*[say("fine, " * 30)] * 80))
    async with harness(model, sets=("context.preset=messages",)) as session:
        sizes: list[int] = []
        for number in range(56):
            await session.ask(f"question {number} " + "and so on " * 20)
            sizes.append(len(session.conversation.messages))
        made = of_kind([envelope.event for envelope in await session.stored()], e.Compacted)
    assert max(sizes) <= 102
    assert [(event.kept.messages, event.by) for event in made] == [(10, "deterministic")]


async def test_a_summary_has_at_most_the_tokens_settings_give_it():
    sets = (*SMALL, "context.summary_tokens=200", "context.recent_turns=2")
    async with harness(Model(scripted(*[say("fine")] * 20)), sets=sets) as session:
        turns = [await session.ask(f"question {number} {LONG}") for number in range(8)]
    made = [event for turn in turns for event in of_kind(turn, e.Compacted)]
    assert made
    assert all(0 < event.summary_tokens <= 200 for event in made)


@pytest.mark.requirement("T10.1", "T10.2")
async def test_many_short_messages_are_a_reason_too_where_settings_say_so():
    sets = ("context.max_messages=20", "context.recent_messages=10")
    async with harness(Model(scripted(*[say("fine, " * 30)] * 40)), sets=sets) as session:
        sizes: list[int] = []
        for number in range(30):
            await session.ask(f"question {number} " + "and so on " * 20)
            sizes.append(len(session.conversation.messages))
        made = of_kind([envelope.event for envelope in await session.stored()], e.Compacted)
    assert made
    assert all(event.kept.messages <= 10 for event in made)
    assert max(sizes) <= 22


async def test_what_the_provider_counts_goes_before_our_estimate():
    counted = answer(say("fine"), Spend(Usage(input_tokens=40_000)))
    async with harness(Model(scripted(*[say("fine")] * 3, counted, *[say("fine")] * 9))) as session:
        turns = [await session.ask(f"question {number} {LONG}") for number in range(5)]
    assert [len(of_kind(turn, e.Compacted)) for turn in turns] == [0, 0, 0, 0, 1]
    assert 0.7 * UNKNOWN_WINDOW < 40_000


async def test_somebody_who_is_there_reads_what_the_next_request_will_do():
    model = Model(scripted(*[say(LONG)] * 20))
    async with harness(model, answers=True, on_ask="wait", sets=SMALL) as session:
        await slash(session, "pin", "never touch main")
        said: list[str] = []
        for number in range(8):
            notices = of_kind(await session.ask(f"question {number}"), e.Notice)
            said += [notice.message for notice in notices if notice.reason == "ContextNearlyFull"]
    assert said
    assert said[0].startswith("Context 7")
    assert "of 12k). The next request will summarise turn" in said[0]
    assert said[0].endswith("; your pinned rule stays. /compact now · /context")


def test_a_new_prefix_is_counted_anew() -> None:
    small = e.PrefixSet(provider="work", model="some", system="short")
    large = msgspec.structs.replace(small, system=LONG * 20)
    conversation = SimpleNamespace(prefix=small, messages=[], counted=None, epoch=0)

    async def ask(*_: object) -> str:
        raise AssertionError("nobody is asked how long something is")

    compactor = Compactor(
        cast("Any", SimpleNamespace(conversation=conversation)),
        CompactionSettings(max_tokens=10_000),
        CompactorNeeds(window_of=lambda _provider, _model: None, ask=cast("Any", ask)),
    )
    assert not compactor._is_due()
    conversation.prefix = large
    assert compactor._is_due()
