"""What commands print: live while they run, a little of it afterwards, with its colours and nothing else obeyed."""

from bridle.conformance.fake_models import scripted
from bridle.protocol import events as e
from bridle.protocol.display_values import ShownCommand
from bridle.providers.script import call, say
from clients.line.line_kit import COLOURLESS, READER, Look, Scene, at_terminal, check_golden
from clients.line.test_screens import CREATE, PAST, prompt, seen
from clients.line.test_status import ASKED, CALLED, RUNS
from clients.line.test_talk import conversation
from tables import table

TESTS = "".join(f"ok {number} - adds up order {number} of the second warehouse\n" for number in range(1, 213))


def printed(text: str, exit_code: int = 0) -> tuple[e.AnyEvent, ...]:
    trailer = f"[exit code {exit_code}]\n" if exit_code else ""
    result = e.ToolResult(
        call_id="call_1",
        tool="bash",
        outcome="ok",
        content=text + trailer,
        shown=ShownCommand(exit_code=exit_code, lines=text.count("\n")),
        duration_ms=4200,
    )
    return CALLED, RUNS, result


@table("columns", [44, 80, 100])
async def test_the_first_and_last_lines_of_a_command_and_more_of_one_that_failed(columns: int) -> None:
    text = await seen(
        Scene(*PAST),
        columns,
        *printed(f"> shop@1.0.0 test\n> node --test\n{TESTS}"),
        *printed(f"> shop@1.0.0 test\n{TESTS}\tnot ok 213 - refunds\n# fail 1\n", exit_code=1),
        *printed("one line\n"),
        *printed(""),
        e.TurnEnded(stop="end_turn", steps=1),
        until="1 step",
    )
    check_golden("output", columns, text)
    assert "… 214 lines" in text
    assert "[exit code" not in text


async def test_the_last_lines_of_a_running_command_are_drawn_in_place() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, columns=80) as (person, _):
        await person.sees("Type what you want")
        await person.types("go\r", then="working")
        scene.tell(prompt("go"), e.TurnStarted(input=4), ASKED, CALLED, RUNS)
        for number in range(1, 41):
            scene.tell(e.ToolCallProgress(call_id="call_1", text=f"line {number}\n", lines=number))
        await person.passes(0.3)
        await person.sees("running npm test · 40 lines")
        rows = person.glass.text.splitlines()
        assert rows[-7:-2] == [f"line {number}" for number in range(36, 41)]
        scene.tell(e.ToolCallProgress(call_id="call_1", text="\x1b[32mgreen\x1b[m\x1b[2J" * 40, lines=40))
        await person.passes(0.3)
        await person.sees("green⟨ESC⟩[2J")
        scene.tell(*printed("all of it\n")[2:], e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("1 step", "all of it")
        await person.waits(lambda: "line 40" not in person.glass.text, "the live lines gone")
        assert "green" not in person.glass.text


async def test_people_who_listen_hear_it_only_when_it_is_over() -> None:
    scene = Scene(*PAST)
    async with at_terminal(scene, CREATE, look=READER) as (person, _):
        await person.sees("Type what you want")
        scene.tell(prompt("go"), e.TurnStarted(input=4), *printed("all of it\n")[:2])
        scene.tell(e.ToolCallProgress(call_id="call_1", text="some of it\n", lines=1))
        await person.passes(5)
        scene.tell(*printed("all of it\n")[2:], e.TurnEnded(stop="end_turn", steps=1))
        await person.sees("all of it", "1 step")
        assert "some of it" not in person.glass.text


@table("look", [COLOURLESS, Look(codes=True, moves=True, colour=True)])
async def test_colours_of_a_command_are_kept_where_there_are_any_and_nothing_else_is_obeyed(
    look: Look,
) -> None:
    scene = Scene(*PAST)
    evil = "\x1b[1;31mFAIL\x1b[0m cart \x1b[8mhidden\x1b[28m\x1b]0;x\x07\x1b[2J\x1b[38;5;2mgreen\x1b[m\n"
    async with at_terminal(scene, CREATE, look=look) as (person, _):
        await person.sees("Type what you want")
        scene.tell(*printed(evil))
        await person.sees("FAIL cart hidden⟨ESC⟩]0;x⟨BEL⟩⟨ESC⟩[2Jgreen")
        assert (b"\x1b[1;31mFAIL" in person.bytes) == look.colour
        assert (b"\x1b[38;5;2mgreen" in person.bytes) == look.colour
        assert b"\x1b[2J" not in person.bytes
        assert b"\x1b[8m" not in person.bytes
        assert b"\x1b]" not in person.bytes


async def test_the_output_of_a_real_command_is_seen() -> None:
    model = scripted(call("bash", command="seq 1 100; exit 3"), say("Ok."))
    async with conversation(model) as (person, _, _session):
        await person.types("go\r", then="exit 3")
        await person.sees("    1\n    2\n    3\n    … 100 lines: /output\n", "    99\n    100\n", "2 steps")


async def test_output_opens_what_a_command_printed_in_the_pager() -> None:
    read: list[str] = []

    async def page(text: str) -> None:
        read.append(text)

    model = scripted(
        call("bash", command="seq 1 100"), call("bash", command="printf 'a\\033[2J\\n'"), say("Ok.")
    )
    async with conversation(model, page=page) as (person, _, _session):
        await person.types("/output\r", then="No such output.")
        await person.types("go\r", then="3 steps")
        await person.types("/output\r")
        await person.waits(lambda: len(read) == 1, "the pager")
        await person.types("/output 2\r")
        await person.waits(lambda: len(read) == 2, "the pager")
        await person.types("/output call_\r")
        await person.waits(lambda: len(read) == 3, "the pager")
        await person.types("/output nosuch\r", then="/output 2 that of the one before.")
    assert read[0] == read[2] == "a⟨ESC⟩[2J\n"
    assert read[1] == "".join(f"{number}\n" for number in range(1, 101))


async def test_without_a_pager_output_prints_it() -> None:
    model = scripted(call("bash", command="seq 1 100"), say("Ok."))
    async with conversation(model) as (person, _, _session):
        await person.types("go\r", then="2 steps")
        assert "    50\n" not in person.glass.text
        await person.types("/output\r", then="    50\n")


async def test_a_command_a_person_typed_keeps_its_colours_and_nothing_else_of_it_is_obeyed() -> None:
    look = Look(codes=True, moves=True, colour=True)
    async with conversation(scripted(say("Ok.")), look=look) as (person, _, _session):
        await person.types("!printf '\\033[31mred\\033[0m \\033[2J\\n'; exit 3\r", then="exit 3")
        await person.sees("red ⟨ESC⟩[2J")
        assert b"\x1b[31mred\x1b[m" in person.bytes
        assert b"\x1b[2J" not in person.bytes
        assert "[exit code 3]" not in person.glass.text


async def test_output_beyond_what_the_model_reads_opens_whole() -> None:
    read: list[str] = []

    async def page(text: str) -> None:
        read.append(text)

    model = scripted(call("bash", command="seq 1 20000"), say("Ok."))
    async with conversation(model, mode="auto", page=page) as (person, _, _session):
        await person.types("go\r", then="2 steps")
        await person.types("/output\r")
        await person.waits(lambda: bool(read), "the pager")
    assert read[0] == "".join(f"{number}\n" for number in range(1, 20001))
