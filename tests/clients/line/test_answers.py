"""Answers keep their shape: tables, lists, links, code; what one said stands out; coming back and resizing."""

from bridle.clients.interaction.session.controller import MARK
from bridle.clients.line.terminal import Look, look_of
from bridle.protocol import events as e
from bridle.protocol.commands import CreateSession
from bridle.protocol.display_values import ShownCommand, ShownEdit
from clients.line.line_kit import DUMB, READER, SESSION, Person, Scene, at_terminal, check_golden
from clients.line.test_edits import CART, COLOUR, ran
from clients.line.test_screens import CREATE, PAST, prompt, seen, settled, step
from tables import table

SHAPES = """Three wires, compared:

| Wire | Price | What it is good for |
|:-----|------:|:--------------------|
| **work** | 12.50 | long answers, with `tools` and thoughts that are told as they come |
| other \\| spare | 3 | see [the notes](https://example.org/notes) |

1. Prices are floats, and adding them up one after the other loses a cent now and then.
   - `total()` in [cart](src/cart.py:12) adds them; the order matters, which nobody expects from a sum.
   - a second
2. Nothing else.

> What is quoted goes on below its own mark, however narrow the window it is read in may be.

Read more at https://example.org/a_long_path/with_underscores_in_it, please.
"""
LINKS = Look(codes=True, moves=True, links=True)


def pieces(text: str, size: int = 7) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@table("columns", [44, 80, 100])
async def test_tables_lists_and_quotes_keep_their_shape_as_they_stream(columns: int) -> None:
    ended = e.TurnEnded(stop="end_turn", steps=1)
    text = await seen(Scene(*PAST), columns, *step(*pieces(SHAPES)), ended, until="1 step")
    at_once = await seen(Scene(*PAST), columns, *step(SHAPES), ended, until="1 step")
    assert text.splitlines()[:-2] == at_once.splitlines()[:-2]  # but for the time it took
    check_golden("shapes", columns, text)
    assert max(map(len, text.splitlines())) <= columns


async def test_a_link_opens_what_it_says_and_nothing_else() -> None:
    answer = (
        "[notes](https://example.org/notes) [cart](src/cart.py:12) [x](javascript:alert(1)) "
        "[y](file:///etc/passwd) [z](https://a.b\x1b]8;;evil) https://example.org/bare [up](../../secret)\n"
    )
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=LINKS, columns=200) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*step(*pieces(answer)))
        await person.sees(
            "notes (example.org) cart (src/cart.py:12) x (javascript:alert(1)) y (file:///etc/passwd)",
            "z (https://a.b⟨ESC⟩]8;;evil) https://example.org/bare up (../../secret)",
        )
        assert list(dict.fromkeys(person.glass.links)) == [
            "https://example.org/notes",
            "file:///work/src/cart.py",
            "https://example.org/bare",
        ]


async def test_elsewhere_a_link_says_where_it_leads() -> None:
    ended = e.TurnEnded(stop="end_turn", steps=1)
    answer = "See [notes](https://example.org/notes)."
    assert "See notes (https://example.org/notes)." in await seen(
        Scene(*PAST), 80, *step(answer), ended, until="1 step"
    )
    for look in (DUMB, READER):
        assert answer in await seen(Scene(*PAST), 80, *step(answer), ended, until="1 step", look=look)


def test_links_are_for_terminals_that_are_known_to_open_them() -> None:
    for env in ({"TERM": "xterm-kitty"}, {"TERM": "xterm", "VTE_VERSION": "7600"}):
        assert look_of(env, terminal=True).links
        assert not look_of({**env, "TMUX": "/tmp/1"}, terminal=True).links
        assert not look_of(env, terminal=False).links
    assert not look_of({"TERM": "xterm"}, terminal=True).links
    assert look_of({"TERM": "xterm"}, terminal=True).reflows
    assert not look_of({"TERM": "xterm", "XTERM_VERSION": "XTerm(379)"}, terminal=True).reflows


async def test_code_of_an_answer_is_told_apart_in_colour() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=COLOUR) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*step("```python\nx = 'y'  # z\n```\n```nosuch\nplain\n```\n"))
        await person.sees("x = 'y'  # z", "plain")
    assert b"\x1b[32m'y'\x1b[m" in person.bytes
    assert b"\x1b[2m# z\x1b[m" in person.bytes
    assert b"\x1b[36mplain\x1b[m" in person.bytes


async def test_what_one_said_stands_out() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=COLOUR) as (person, _):
        await person.sees("Type what you want")
        await person.types("first\r", then="working")
        scene.tell(prompt("first"), e.TurnStarted(input=4))
        await person.types("second\r", then="queued   second")
        scene.tell(prompt("second"), e.TurnEnded(stop="end_turn", steps=1), e.TurnStarted(input=6))
        await person.sees(f"{MARK}second")
    for words in ("first", "second"):
        assert f"\x1b[1;36m{MARK}{words}\x1b[m".encode() in person.bytes


# Coming back


def earlier(turns: int) -> tuple[e.AnyEvent, ...]:
    events: list[e.AnyEvent] = [*PAST[:2]]
    for number in range(1, turns + 1):
        events += [
            prompt(f"question {number}"),
            e.TurnStarted(input=len(events) + 1 + number - 1),  # the kit adds a timing to each turn before
            *step(f"Answer {number}, in **bold**.\n\n- one\n- two\n"),
            *ran("edit_file", ShownEdit(files=(CART,)), call_id=f"call_{number}", path="src/cart.py"),
            *ran("bash", ShownCommand(exit_code=0), call_id=f"call_b{number}", command="npm test"),
            e.TurnEnded(stop="end_turn", steps=2),
        ]
    return (*events, *PAST)


@table("columns", [44, 80, 100])
async def test_coming_back_shows_the_end_of_the_conversation(columns: int) -> None:
    resume = CreateSession(cwd="/work", resume=SESSION)
    async with at_terminal(Scene(*earlier(5)), resume, columns=columns, rows=30) as (person, _):
        await person.sees("twice leaves", MARK.strip())
        await settled(person)
        text = person.glass.text
    check_golden("resumed", columns, text)
    shown = text.partition("Back in")[2].partition("Type what you want")[0]
    assert "› question 5" in shown
    assert "› question 1" not in shown
    assert len(shown.splitlines()) <= 30


async def test_people_who_listen_hear_the_last_answer() -> None:
    resume = CreateSession(cwd="/work", resume=SESSION)
    async with at_terminal(Scene(*earlier(2)), resume, look=READER) as (person, _):
        await person.sees("twice leaves")
        assert "The last answer:\nAnswer 2, in **bold**." in person.glass.text
        assert "question 2" not in person.glass.text


# Resizing


def joined(person: Person) -> str:
    """What stands on the screen, whatever rows it was broken into."""
    return "".join(person.glass.text.split())


@table("widths", [(44,), (60, 31), (120,), (33, 90, 44)])
async def test_resizing_while_an_answer_streams_doubles_no_line(widths: tuple[int, ...]) -> None:
    words = [f"word{number} " for number in range(120)]
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=80) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then="working")
        scene.tell(prompt("go"), e.TurnStarted(input=4), e.StepStarted(step=1, provider="w", model="m"))
        share = len(words) // (len(widths) + 1)
        for number, width in enumerate((*widths, None)):
            for word in words[number * share : (number + 1) * share]:
                scene.tell(e.TextDelta(text=word))
            last = words[(number + 1) * share - 1].strip()
            await person.waits(lambda last=last: last in joined(person), last)
            await person.types("a draft long enough to need two rows where the window is narrow")
            await person.waits(lambda: "windowisnarrow" in joined(person), "the draft")
            if width is not None:
                person.resizes(width)
            person.type("\x15")
            await person.waits(lambda: "draft" not in person.glass.text, "an empty line")
        scene.tell(
            e.StepEnded(step=1, stop="end_turn", text_sha256=""), e.TurnEnded(stop="end_turn", steps=1)
        )
        await person.sees("1 step")
        await settled(person)
        text = person.glass.text
    answer = "".join(text.partition("› go")[2].split())
    assert answer.startswith("".join(words[: share * (len(widths) + 1)]).replace(" ", ""))
    assert answer.count("word0") == 1
    assert "draft" not in text
    assert (
        "".join(text.split()).count("stops") == 1
    )  # that of the first lines: no status line was left behind
