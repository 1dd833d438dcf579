"""Habits of a terminal: Esc, lists to pick from, the queue, questions beside the work, a notice after a long turn."""

import pytest

from bridle.clients.interaction.composer.composer import Picture
from bridle.clients.interaction.session.controller import MARK
from bridle.protocol import events as e
from bridle.protocol import queries as q
from bridle.protocol.commands import (
    AskAside,
    CancelTurn,
    ChangeInput,
    RevokeGrant,
    SendInput,
    SetEffort,
    SetModel,
)
from bridle.protocol.errors import UsageError
from bridle.protocol.messages import ImageBlock, TextBlock
from bridle.protocol.tokens import APPROVE, Claims
from clients.line.line_kit import READER, SESSION, Person, Scene, at_terminal, commands
from clients.line.test_screens import CREATE, PAST, prompt
from tables import table

ALL = pytest.mark.parametrize("columns", [44, 80, 100])
RUNNING = (prompt("go"), e.TurnStarted(input=4), e.StepStarted(step=1, provider="work", model="some-model"))
MODELS = {
    entry.model: entry
    for entry in (
        q.ModelEntry(
            model="work:some-model", context_tokens=200_000, price_in=3.0, price_out=15.0, images=True
        ),
        q.ModelEntry(model="work:some-mini", context_tokens=400_000, price_in=0.25, price_out=2.0),
        q.ModelEntry(model="other:large", tools=False),
        q.ModelEntry(model="ollama:qwen3-coder:30b", local=True, context_tokens=32_768),
    )
}


async def tells(person: Person, scene: Scene, *more: e.AnyEvent, until: str = "thinking") -> None:
    """A turn runs, and the client knows it."""
    scene.tell(*RUNNING, *more)
    await person.passes(1)
    await person.sees(until)


async def test_esc_stops_only_when_it_is_pressed_again_and_the_draft_stays() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await tells(person, scene)
        await person.types("half a thought")
        await person.types("\x1b", then="Esc again to stop")
        assert not commands(scene, CancelTurn)
        await person.passes(2.5)
        await person.waits(lambda: "Esc again to stop" not in person.glass.text, "the hint gone")
        await person.types("\x1b", then="Esc again to stop")
        person.type("\x1b")
        await person.sees("Stopping…", f"{MARK}half a thought")
        assert len(commands(scene, CancelTurn)) == 1


async def test_a_token_that_only_answers_sends_nothing_else_and_keeps_the_draft() -> None:
    scene = Scene(*PAST)
    scene.prompts = (q.SlashEntry(name="review", description="looks at it"),)
    claims = Claims(ver=1, jti="tok_1", identity_class="human", exp=1, commands=APPROVE, name="Ana")
    async with at_terminal(scene, CREATE, claims=claims) as (person, task):
        await person.sees("You can answer what is asked here, and nothing else is sent.")
        await tells(person, scene)
        assert "thinking · Ctrl-C stops" not in person.glass.text
        await person.types("hello there\r", then="This token answers questions; it does not send words.")
        await person.sees(f"{MARK}hello there")
        assert "queued" not in person.glass.text
        await person.types("\x1b", then="This token answers questions; it does not stop turns.")
        await person.types("\x03", then="Draft cleared")
        assert "Stopping" not in person.glass.text
        await person.types("/revi\t")
        await person.sees(f"{MARK}/revi")
        assert "/review" not in person.glass.text, "nobody asked for what this token does not cover"
        person.type("\x15\x04")
        assert await task == 0, "what runs is not theirs to stop, so nobody asks about it"
    assert [type(one).__name__ for one in scene.sent] == ["CreateSession"]


async def test_arrows_and_other_sequences_are_no_esc() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await tells(person, scene)
        await person.types("ab\x1b[D\x1b[D\x1bf\x1b[Dx", then=f"{MARK}axb")
        assert "Esc again" not in person.glass.text
        assert not commands(scene, CancelTurn)


async def test_esc_where_nothing_runs_does_nothing() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.presses_esc()
        await person.types("word", then=f"{MARK}word")
        assert "Esc again" not in person.glass.text


@ALL
async def test_a_model_is_picked_from_a_list(columns: int) -> None:
    scene = Scene(*PAST)
    scene.models = MODELS
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("/model\r", then="Enter takes it")
        await person.shows("model-picker", columns)
        await person.types("so", then=f"{MARK}so")
        await person.types("\t", then=f"{MARK}so")
        await person.types("me-mini", then="> work:some-mini")
        await person.types("\r")
        await person.waits(lambda: bool(commands(scene, SetModel)), "the command")
        assert [command.model for command in commands(scene, SetModel)] == ["work:some-mini"]


async def test_tab_completes_a_name_and_esc_leaves_the_list() -> None:
    scene = Scene(*PAST)
    scene.models = MODELS
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("/model\r", then="Enter takes it")
        await person.types("wo\t", then=f"{MARK}work:some-m")
        await person.types("\x1b", then="> work:some-model")
        await person.types("\x1b")
        await person.waits(lambda: "Enter takes it" not in person.glass.text, "the list gone")
        assert not commands(scene, SetModel)


async def test_people_who_listen_read_the_list() -> None:
    scene = Scene(*PAST)
    scene.models = MODELS
    async with at_terminal(scene, CREATE, look=READER) as (person, _):
        await person.sees("Type what you want")
        await person.types("/model\r", then="Others: /model provider:model")
        assert "ollama:qwen3-coder:30b" in person.glass.text
        await person.types("/model work:some-mini\r")
        await person.waits(lambda: bool(commands(scene, SetModel)), "the command")


@pytest.mark.requirement("G8.3")
@ALL
async def test_what_is_allowed_is_revoked_from_a_list(columns: int) -> None:
    scene = Scene(*PAST, e.GrantAdded(grant_id="g1", tool="bash", pattern="npm test", life="session"))
    scene.grants = (
        q.GrantEntry(grant_id="g2", tool="edit_file", pattern="a.py", expires_ms=1),
        q.GrantEntry(grant_id="g1", tool="bash", pattern="npm test"),
    )
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("/permissions\r", then="Enter revokes")
        await person.shows("permissions-picker", columns)
        await person.types("\x1b[B", then="> ")
        await person.types("\r")
        await person.waits(lambda: bool(commands(scene, RevokeGrant)), "the command")
        assert [command.grant_id for command in commands(scene, RevokeGrant)] == ["g2"]
        scene.tell(e.GrantRevoked(grant_id="g2"))
        await person.sees("revoked  the next such call asks again")


def waits(text: str, mode: e.InputMode = "queue") -> e.InputAccepted:
    return e.InputAccepted(content=(TextBlock(text=text),), mode=mode)


@ALL
async def test_the_queue_is_seen_and_changed(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        queued = waits("also handle refunds"), waits("then write a line in the changelog")
        await tells(person, scene, *queued, waits("use Decimal", "steer"), until="3 queued")
        await person.types("/queue\r", then="drop N")
        await person.types("/queue hold 2\r")
        await person.types("/queue first 3\r")
        await person.types("/queue edit 2\r", then=f"{MARK}/queue edit 2 also handle")
        await person.types("\x17\x17and vouchers\r")
        await person.waits(lambda: len(commands(scene, ChangeInput)) == 3, "three commands")
        assert commands(scene, ChangeInput) == [
            ChangeInput(session=SESSION, input=7, change="hold"),
            ChangeInput(session=SESSION, input=8, change="first"),
            ChangeInput(
                session=SESSION,
                input=7,
                change="edit",
                content=(TextBlock(text="also and vouchers"),),
            ),
        ]
        scene.tell(e.InputChanged(input=7, change="hold"), e.InputChanged(input=8, change="first"))
        content = (TextBlock(text="also and vouchers"),)
        scene.tell(e.InputChanged(input=7, change="edit", content=content))
        scene.tell(e.InputChanged(input=9, change="drop", content=(TextBlock(text="use Decimal"),)))
        await person.sees("dropped  use Decimal")
        await person.types("/queue\r", then="2  held")
        await person.shows("queue", columns)
        scene.tell(e.TurnEnded(stop="end_turn", steps=1), e.TurnStarted(input=8))
        scene.tell(e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("1 message held back.")


async def test_what_is_wrong_with_a_change_of_the_queue_is_said() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await tells(person, scene, waits("two"), until="1 queued")
        await person.types("/queue lose 1\r", then="What about them? /queue edit N")
        await person.types("/queue drop 5\r", then="Which one? /queue lists them")
        assert not commands(scene, ChangeInput)


async def test_a_lone_letter_during_a_turn_is_held_back_and_goes_with_a_blank_before_it() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await tells(person, scene)
        await person.types("y\r", then='"y" was not sent: alone it looks like an answer.')
        await person.types("2\x13", then='"2" was not sent')
        assert not commands(scene, SendInput)
        await person.types(" y\r", then="queued    y")
        await person.waits(lambda: bool(commands(scene, SendInput)), "the command")
        scene.tell(waits("y"), e.TurnEnded(stop="end_turn", steps=1))


async def test_a_lone_letter_between_turns_is_a_message() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("y\r", then=f"{MARK}y")
        await person.waits(lambda: bool(commands(scene, SendInput)), "the command")


@ALL
async def test_a_question_beside_the_work(columns: int) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=columns) as (person, _):
        await person.sees("Type what you want")
        await person.types("/btw why are prices floats?\r", then=f"{MARK}/btw")
        await person.waits(lambda: bool(commands(scene, AskAside)), "the command")
        scene.tell(e.AsideAsked(question="why are prices floats?"))
        await person.passes(3.2)
        await person.sees("asking beside the work 3 s")
        scene.tell(e.AsideAnswered(asked=4, answer="They came from a form.\nNobody rounded them."))
        await person.sees("Nobody rounded them.")
        await person.waits(lambda: "asking beside" not in person.glass.text, "the status gone")
        await person.shows("btw", columns)


async def test_an_effort_is_chosen_by_name() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("/effort loud\r", then='"loud" is not an effort (off, low, medium, high, max).')
        await person.types("/effort high\r")
        await person.waits(lambda: bool(commands(scene, SetEffort)), "the command")
        scene.tell(e.EffortChanged(effort="high"))
        await person.sees("effort   high")


async def test_the_bell_rings_after_a_long_turn_and_not_after_a_short_one() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*RUNNING, e.TurnEnded(stop="end_turn", steps=1), after_ms=1000)
        await person.sees("1 step")
        assert b"\x07" not in person.bytes
        scene.tell(prompt("again"), e.TurnStarted(input=9))
        scene.tell(e.TurnEnded(stop="end_turn", steps=1), after_ms=21_000)
        await person.waits(lambda: b"\x07" in person.bytes, "the bell")


@table("typed", ["!vim a.py", "!sudo less /etc/hosts", "!EDITOR=x top", "!!man ls"])
async def test_a_program_for_a_terminal_gets_a_sentence(typed: str) -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types(f"{typed}\r", then="needs a terminal of its own")
        assert "Ctrl-Z leads to your shell" in person.glass.text
        assert len(scene.sent) == 1


def _cart(path: str) -> Picture | None:
    return (
        Picture("[image cart.png 1280\u00d7720]", ImageBlock(url="data:x"))
        if path.endswith("cart.png")
        else None
    )


@ALL
async def test_a_dropped_image_becomes_words_in_the_draft_and_goes_along(columns: int) -> None:
    scene = Scene(*PAST)
    scene.models = {"work:some-model": q.ModelEntry(model="work:some-model", images=False)}
    async with at_terminal(scene, CREATE, columns=columns, picture=_cart) as (person, _):
        await person.sees("Type what you want")
        await person.types("what is wrong in ")
        await person.pastes("/home/me/cart.png")
        await person.sees("[image cart.png", "takes no images")
        await person.shows("image", columns)
        await person.types("?\r")
        await person.waits(lambda: bool(commands(scene, SendInput)), "the command")
        (sent,) = commands(scene, SendInput)
        text = TextBlock(text="what is wrong in [image cart.png 1280\u00d7720] ?")
        assert sent.content == (text, ImageBlock(url="data:x"))


async def test_a_mentioned_image_goes_along() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, picture=_cart, is_file=lambda path: path == "cart.png") as (
        person,
        _,
    ):
        await person.sees("Type what you want")
        await person.types("see @cart.png\r")
        await person.waits(lambda: bool(commands(scene, SendInput)), "the command")
        (sent,) = commands(scene, SendInput)
        assert sent.content == (TextBlock(text="see "), ImageBlock(url="data:x"))


async def test_ctrl_v_takes_an_image_from_the_clipboard_or_says_why_not() -> None:
    async def read() -> Picture:
        return Picture("[image clipboard]", ImageBlock(url="data:y"))

    async def far_away() -> Picture:
        raise UsageError("bridle cannot read this clipboard; use @path")

    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, clipboard_picture=read) as (person, _):
        await person.sees("Type what you want")
        await person.types("\x16", then="[image clipboard]")
    async with at_terminal(Scene(*PAST), CREATE, clipboard_picture=far_away) as (person, _):
        await person.sees("Type what you want")
        await person.types("\x16", then="bridle cannot read this clipboard; use @path")
    async with at_terminal(Scene(*PAST), CREATE) as (person, _):
        await person.sees("Type what you want")
        await person.types("\x16", then="No clipboard can be read here.")


async def test_a_verb_of_the_program_has_the_terminal_and_the_page_goes_on() -> None:
    ran: list[tuple[str, ...]] = []

    async def run_verb(words: tuple[str, ...]) -> None:
        ran.append(tuple(words))

    async with at_terminal(Scene(*PAST), CREATE, run_verb=run_verb) as (person, _):
        await person.sees("Type what you want")
        await person.types("/login work\r")
        await person.types("/trust ack AGENTS.md\r", then="counts for sessions that begin from here on")
        await person.types("/hooks\r")
        await person.types("/trust sell\r", then="What about it? /trust list")
        await person.waits(lambda: len(ran) == 3, "three verbs")
    assert ran == [("login", "work"), ("trust", "ack", "AGENTS.md"), ("hooks", "list")]
