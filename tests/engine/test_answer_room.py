"""An answer longer than any real one ends its turn: the text stays, no call of it runs, nothing is asked again."""

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness, of_kind
from bridle.engine.sizes import MAX_ANSWER
from bridle.protocol.events import StepEnded, StepFailed, ToolResult, TurnEnded
from bridle.protocol.messages import TextBlock
from bridle.providers.script import answer, call, say, think
from tables import table

ENDLESS = "word " * (MAX_ANSWER // 5 + 1_000)


async def ended_by(*statements):
    async with harness(scripted(answer(*statements), say("again")), mode="auto") as session:
        events = await session.ask("go")
        messages = session.conversation.messages
        assert of_kind(await session.ask("and now?"), TurnEnded)[0].reason is None
    (ended,) = of_kind(events, TurnEnded)
    assert (ended.stop, ended.reason) == ("error", "AnswerTooLong")
    assert (
        ended.message
        == "The answer was cut off after 4 MB; it seemed to have no end. What came before is kept."
    )
    assert of_kind(events, StepFailed) == of_kind(events, ToolResult) == []
    assert [event.calls for event in of_kind(events, StepEnded)] == [()]
    return messages


async def test_the_text_of_an_endless_answer_is_kept_up_to_the_limit():
    messages = await ended_by(call("bash", command="touch made"), say(ENDLESS))
    (text,) = messages[1].content
    assert isinstance(text, TextBlock)
    assert MAX_ANSWER - 10_000 < len(text.text) <= MAX_ANSWER
    assert text.text.startswith("[scripted] word word")


@table(
    "endless",
    [
        (think(ENDLESS),),
        (call("bash", command=ENDLESS),),
        tuple(call("bash", command="touch made") for _ in range(1_100)),
    ],
)
async def test_what_came_before_an_endless_part_is_kept_and_no_call_runs(endless):
    messages = await ended_by(say("begun"), *endless)
    assert messages[1].content == (TextBlock(text="[scripted] begun"),)


async def test_the_longest_real_answers_have_room():
    million = "word " * 200_000
    async with harness(
        scripted(
            answer(think(million), say(million), call("write_file", path="a", content=million[:900_000])),
            say("ok"),
        ),
        mode="auto",
    ) as session:
        events = await session.ask("go")
    assert of_kind(events, TurnEnded)[0].reason is None
    assert of_kind(events, ToolResult)[0].outcome == "ok"
