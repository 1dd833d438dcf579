"""Secrets are taken out of what comes back; what goes in stays as it is."""

import asyncio

import pytest

from bridle.base.secrets.redact import redact
from bridle.engine.tools import ToolCall, ToolOutput
from bridle.protocol.display_values import EditedFile, ShownEdit
from bridle.safety.redacted import redacted

SECRET = "ghp_" + "a1B2" * 9
MASK = "«redacted:github-token»"

pytestmark = pytest.mark.requirement("G7.8")


async def test_a_secret_split_over_two_pieces_never_shows(calls) -> None:
    async def proceed(call: ToolCall) -> ToolOutput:
        call.write(f"key {SECRET[:10]}")
        call.write(f"{SECRET[10:]} end")
        return ToolOutput(
            content=f" and {SECRET}",
            shown=ShownEdit(files=(EditedFile(path=f"{SECRET}.txt", diff=f"+{SECRET}", added=1),)),
            metadata={"n": 1, "more": [{"x": SECRET}]},
        )

    output = await redacted()(calls.make(), proceed)
    assert "".join(calls.printed) == f"key {MASK} end"
    assert output.content == f" and {MASK}"
    assert output.shown == ShownEdit(files=(EditedFile(path=f"{MASK}.txt", diff=f"+{MASK}", added=1),))
    assert output.metadata == {"n": 1, "more": [{"x": MASK}]}


async def test_long_and_short_pieces_come_out_in_order_and_all_of_them_before_the_result(calls) -> None:
    """Long ones are looked through elsewhere, which takes time."""
    pieces = [f"{number} {'eyJ' * size} " for number, size in enumerate([30_000, 1, 20_000, 2, 3])]

    async def proceed(call: ToolCall) -> ToolOutput:
        waits = [call.write(piece) for piece in (*pieces, SECRET[:10], SECRET[10:])]
        assert waits[0] is not None, "whoever has more is to wait"
        await asyncio.sleep(0)
        return ToolOutput(content="end")

    assert (await redacted()(calls.make(), proceed)).content == "end"
    assert "".join(calls.printed) == redact("".join((*pieces, SECRET)))


async def test_the_input_is_never_changed(calls) -> None:
    call = calls.make("bash", command=f"login {SECRET}")
    await redacted()(call, calls.proceed)
    assert calls.ran[0].input == {"command": f"login {SECRET}"}
    assert calls.ran[0].args == call.args


async def test_what_was_held_back_is_shown_when_the_call_fails(calls) -> None:
    async def proceed(call: ToolCall) -> ToolOutput:
        call.write("half a gh")
        raise KeyError

    with pytest.raises(KeyError):
        await redacted()(calls.make(), proceed)
    assert "".join(calls.printed) == "half a gh"


async def test_a_key_in_use_is_masked_though_it_looks_like_nothing(calls) -> None:
    key = "plain-" + "words"

    async def proceed(call: ToolCall) -> ToolOutput:
        for letter in f"it is {key}, and plain-":
            call.write(letter)
        return ToolOutput(content=f"also {key}", metadata={"more": [key]})

    output = await redacted(lambda: (key,))(calls.make(), proceed)
    assert "".join(calls.printed) == "it is «redacted:key», and plain-"
    assert (output.content, output.metadata) == ("also «redacted:key»", {"more": ["«redacted:key»"]})


async def test_a_key_that_is_one_of_our_own_words_costs_what_is_shown_and_never_the_call(calls) -> None:
    async def proceed(_call: ToolCall) -> ToolOutput:
        return ToolOutput(content="gone", shown=ShownEdit(files=(EditedFile(path="a", kind="delete"),)))

    for key in ("edit", "path"):
        output = await redacted(lambda key=key: (key,))(calls.make(), proceed)
        assert output.shown == ShownEdit(files=(EditedFile(path="a", kind="delete"),))
    output = await redacted(lambda: ("delete",))(calls.make(), proceed)
    assert (output.content, output.shown) == ("gone", None)
