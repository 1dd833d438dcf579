"""What holds for every wire: a request only grows, an answer does not depend on how it was read, nothing is guessed."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.conformance.fake_models import SAMPLE_MESSAGES, SAMPLE_PREFIX, check_wire
from bridle.engine.conversation import Conversation
from bridle.engine.ports import ModelDone, ModelThinking, ModelThought
from bridle.engine.steps import encode
from bridle.protocol.events import PrefixSet
from bridle.protocol.messages import (
    CANONICAL_FORM_VERSION,
    ImageBlock,
    Message,
    Parameters,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from bridle.providers.answers import CUT, EMPTY, AnswerFault, AnswerPosition, decode_answer, pieces, thought
from bridle.providers.endpoints import Endpoint, WireName
from bridle.providers.wires import dialect
from effort import examples
from providers.wire_kit import GOLDEN, WIRES, as_stream, joined, read, sent, speaking
from tables import table

each_wire = pytest.mark.parametrize("wire", WIRES)
STREAMS = [(wire, file) for wire in WIRES for file in sorted((GOLDEN / wire).glob("stream-*.json"))]
each_stream = pytest.mark.parametrize(
    ("wire", "file"), [pytest.param(wire, file, id=f"{wire}-{file.stem}") for wire, file in STREAMS]
)
PREFIX = PrefixSet(provider="p", model="some-model", system="Be brief.")


# Requests


@each_wire
@pytest.mark.parametrize("count", range(len(SAMPLE_MESSAGES) + 1))
def test_odd_text_and_every_block_make_a_request_that_is_json(wire: WireName, count: int) -> None:
    check_wire(speaking(wire).wire, SAMPLE_PREFIX, SAMPLE_MESSAGES[:count])


@each_wire
def test_a_request_begins_with_the_bytes_of_the_one_before(wire: WireName) -> None:
    """Cache hints included: what marks the end of the last message does not stand in the messages."""
    spoken = speaking(wire).wire
    tail = spoken.tail(SAMPLE_PREFIX)
    before = b""
    for count in range(len(SAMPLE_MESSAGES) + 1):
        body = check_wire(spoken, SAMPLE_PREFIX, SAMPLE_MESSAGES[:count]).removesuffix(tail)
        assert body.startswith(before)
        before = body


@each_wire
def test_the_engine_builds_the_same_request_step_by_step(wire: WireName) -> None:
    conversation = Conversation()
    conversation.prefix = SAMPLE_PREFIX
    conversation.messages = list(SAMPLE_MESSAGES)
    spoken = speaking(wire).wire
    assert encode(conversation, spoken) == sent(spoken, SAMPLE_PREFIX, SAMPLE_MESSAGES)


@each_wire
@given(system=st.text(), model=st.text(), texts=st.lists(st.text(min_size=1)))
def test_no_text_is_taken_for_the_marks_of_a_request(
    wire: WireName, system: str, model: str, texts: list[str]
) -> None:
    try:
        "".join((system, model, *texts)).encode()
    except UnicodeEncodeError:
        return
    marks = f'{system},"model":"x","messages":[{system}],"input":['
    prefix = PrefixSet(provider="p", model=marks + model, system=marks)
    messages = tuple(Message(role="user", content=(TextBlock(text=text + "."),)) for text in texts)
    body = json.loads(sent(speaking(wire).wire, prefix, messages))
    assert body["model"] == marks + model
    said = json.dumps(body.get("messages", body.get("input")))
    assert all(json.dumps(text + ".")[1:-1] in said for text in texts)


@each_wire
@pytest.mark.requirement("D8.7")
def test_a_long_history_arrives_whole_and_in_order(wire: WireName) -> None:
    history: list[Message] = []
    for number in range(500):
        call = ToolUseBlock(wire_id=f"c{number}", tool="bash", input={"command": f"echo {number}"})
        result = ToolResultBlock(wire_id=f"c{number}", tool="bash", text=f"<{number}>")
        history += [Message(role="assistant", content=(call,)), Message(role="user", content=(result,))]
    body = sent(speaking(wire).wire, PREFIX, history).decode()
    assert all(body.count(f"<{number}>") == 1 for number in range(500))
    places = [body.index(f"echo {number}") for number in range(500)]
    assert places == sorted(places)


@each_wire
def test_a_wire_says_which_form_of_messages_it_translates(wire: WireName) -> None:
    assert getattr(speaking(wire).wire, "canonical_form_version", None) == CANONICAL_FORM_VERSION


@pytest.mark.requirement("G12.3")
def test_every_vendor_is_given_the_cache_hint_it_understands() -> None:
    def body(name: WireName, **more: Any) -> dict[str, Any]:
        made = dialect(Endpoint(name="p", base_url="http://p", wire=name, **more))
        return json.loads(sent(made.wire, SAMPLE_PREFIX, SAMPLE_MESSAGES[:1]))

    from bridle.providers.presets import preset

    mark = {"type": "ephemeral"}
    assert [body("anthropic")["system"][0]["cache_control"], body("anthropic")["cache_control"]] == [mark] * 2
    assert body("openai_responses")["prompt_cache_key"].startswith("bridle-")
    assert "cache" not in json.dumps(body("openai_chat"))
    openrouter, zai = preset("openrouter"), preset("zai")
    assert openrouter is not None
    assert zai is not None
    passed_on = body("openai_chat", quirks=openrouter.quirks)["messages"][0]["content"]
    assert passed_on[0]["cache_control"] == mark
    assert "cache" not in json.dumps(body("openai_chat", quirks=zai.quirks))


def test_the_cache_key_is_that_of_the_beginning() -> None:
    def key(prefix: PrefixSet) -> str:
        return json.loads(b"{" + speaking("openai_responses").wire.tail(prefix)[2:])["prompt_cache_key"]

    same = PrefixSet(
        provider="other", model="some-model", system="Be brief.", parameters=Parameters(max_tokens=1)
    )
    other = PrefixSet(provider="p", model="some-model", system="Be long.")
    assert key(PREFIX) == key(same) != key(other)


# Thoughts


@pytest.mark.requirement("G12.2")
@table("wire", ["anthropic", "openai_responses"])
def test_a_thought_goes_back_to_its_family_word_for_word_and_to_nobody_else(wire: WireName) -> None:
    file = GOLDEN / wire / "stream-thinking.json"
    stream = as_stream(json.loads(file.read_text(encoding="utf-8"))["frames"])
    parts = read(speaking(wire).decoder(), [stream])
    thoughts = [part.block for part in parts if isinstance(part, ModelThought)]
    kept = Message(role="assistant", content=(*thoughts, TextBlock(text="I look."), USE))
    came = list(_items(json.loads(file.read_text(encoding="utf-8"))["parts"]))
    assert [item for item in _sent(wire, "p", kept) if item in came] == came
    for stranger, name in (
        ("anthropic", "q"),
        ("openai_responses", "q"),
        ("openai_chat", "p"),
        (_other(wire), "p"),
    ):
        assert not [item for item in _sent(stranger, name, kept) if item in came]


USE = ToolUseBlock(wire_id="a", tool="bash", input={"command": "ls"})


def _other(wire: str) -> WireName:
    return "openai_responses" if wire == "anthropic" else "anthropic"


def _items(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part["opaque"][3] for part in parts if "thought" in part]


def _sent(wire: Any, name: str, message: Message) -> list[dict[str, Any]]:
    made = dialect(Endpoint(name=name, base_url="http://p", wire=wire)).wire
    body = json.loads(sent(made, PREFIX, [message]))
    found: list[dict[str, Any]] = body.get("input") or body["messages"]
    return [*found, *(block for one in found for block in _blocks(one))]


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


@given(
    text=st.text(max_size=12),
    calls=st.integers(0, 3),
    places=st.lists(st.tuples(st.integers(0, 14), st.integers(0, 4)), max_size=4),
)
def test_the_pieces_of_an_answer_are_all_of_it_in_order(
    text: str, calls: int, places: list[tuple[int, int]]
) -> None:
    """Also where a place no longer fits, because the text became shorter."""
    made = [ToolUseBlock(wire_id=str(number), tool="t", input={}) for number in range(calls)]
    thoughts = [
        thought("f", {"n": number}, AnswerPosition(*place)).block
        for number, place in enumerate(sorted(places))
    ]
    found = list(pieces((*thoughts, TextBlock(text=text), *made), "f"))
    assert "".join(one for one in found if isinstance(one, str)) == text
    assert [one for one in found if isinstance(one, ToolUseBlock)] == made
    raws = [one for one in found if not isinstance(one, str | ToolUseBlock)]
    assert [json.loads(bytes(raw)) for raw in raws] == [{"n": number} for number in range(len(thoughts))]
    assert "" not in found


def test_a_thought_that_was_changed_or_is_none_stays_behind() -> None:
    block = thought("f", {"thinking": "the secret"}, AnswerPosition(0, 0)).block
    changed = ThinkingBlock(family="f", opaque=block.opaque.replace("secret", "«redacted»"))
    for opaque in (changed, ThinkingBlock(family="f", opaque="{"), ThinkingBlock(family="f", opaque="[1]")):
        assert list(pieces((opaque, TextBlock(text="Hi.")), "f")) == ["Hi."]
    assert len(list(pieces((block, TextBlock(text="Hi.")), "f"))) == 2


@table("wire", ["anthropic", "openai_responses"])
def test_a_thought_that_nothing_follows_stays_behind(wire: WireName) -> None:
    """An answer that ran out of tokens while it thought would be refused if it came back like that."""
    family = f"{wire}:p"
    alone = thought(family, {"type": "reasoning"}, AnswerPosition(0, 0)).block
    assert speaking(wire).wire.message(Message(role="assistant", content=(alone,))) == b""
    last = thought(family, {"type": "reasoning"}, AnswerPosition(3, 0)).block
    message = Message(role="assistant", content=(last, TextBlock(text="Hi.")))
    assert b"reasoning" not in speaking(wire).wire.message(message)


# Streams


@each_stream
def test_a_stream_cut_anywhere_is_the_whole_answer_or_none(wire: WireName, file: Any) -> None:
    """Only the price may be missing: it may come after the reason."""
    case = json.loads(file.read_text(encoding="utf-8"))
    frames = [as_stream([frame]) for frame in case["frames"]]
    for cut in range(len(frames)):
        for rest in (b"", frames[cut][: len(frames[cut]) // 2]):
            try:
                parts = joined(read(speaking(wire).decoder(), [*frames[:cut], rest]))
            except AnswerFault as fault:
                assert fault.problem in {EMPTY, CUT}
            else:
                assert parts[:-1] == case["parts"][:-1]
                assert parts[-1]["done"] == case["parts"][-1]["done"]


@given(data=st.data())
@settings(max_examples=examples(150))
def test_how_a_stream_is_read_changes_nothing(data: st.DataObject) -> None:
    wire, file = data.draw(st.sampled_from(STREAMS))
    case = json.loads(file.read_text(encoding="utf-8"))
    stream = as_stream(case["frames"])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=20)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert joined(read(speaking(wire).decoder(), chunks)) == case["parts"]


_NAMES = (
    *("choices", "delta", "tool_calls", "function", "index", "id", "usage", "error", "content", "type"),
    *("content_block", "message", "item", "output_index", "response", "output", "summary", "arguments"),
    *("incomplete_details", "status", "object", "text", "thinking", "signature", "partial_json", "input"),
)
_WORDS = (
    *(
        "content_block_start",
        "content_block_delta",
        "message_start",
        "message_delta",
        "message_stop",
        "error",
    ),
    *(
        "message",
        "text",
        "tool_use",
        "thinking",
        "response.output_item.done",
        "response.completed",
        "response",
    ),
    *("response.output_text.delta", "reasoning", "function_call", "response.function_call_arguments.done"),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(_WORDS) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=15,
)


@each_wire
@given(frames=st.lists(_JSON.map(json.dumps) | st.text(max_size=20), max_size=6), data=st.data())
@settings(max_examples=examples(200))
def test_whatever_a_server_sends_is_an_answer_or_a_fault(
    wire: WireName, frames: list[str], data: st.DataObject
) -> None:
    ending = data.draw(st.sampled_from(ENDINGS))
    decoder = speaking(wire).decoder()
    try:
        parts = decoder.feed([*frames, *ending])
        parts += decoder.finish()
        decode_answer(speaking(wire).decoder(), json.dumps(frames).encode())
    except AnswerFault:
        return
    assert [part for part in parts if isinstance(part, ModelDone)] == parts[-1:]


ENDINGS = (
    [],
    ["[DONE]"],
    ['{"type":"message_stop"}'],
    ['{"type":"response.completed","response":{"output":[]}}'],
)


@each_wire
@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ("<html>", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[1]", "it does not have the form of an answer"),
        ("[" * 100_000, "it does not have the form of an answer"),
        ('{"error": {"message": "boom"}}', "the vendor reports an error"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_not_an_answer_says_so(wire: WireName, frame: str, problem: str) -> None:
    with pytest.raises(AnswerFault) as fault:
        speaking(wire).decoder().feed([frame])
    assert fault.value.problem == problem


@each_wire
def test_a_stream_that_says_nothing_is_empty(wire: WireName) -> None:
    with pytest.raises(AnswerFault, match=EMPTY):
        speaking(wire).decoder().finish()


@each_wire
@pytest.mark.requirement("G12.1")
def test_pictures_and_words_keep_their_order(wire: WireName) -> None:
    content = (TextBlock(text="one"), ImageBlock(url="data:image/png;base64,AAAA"), TextBlock(text="two"))
    body = sent(speaking(wire).wire, PREFIX, [Message(role="user", content=content)])
    assert body.index(b'"one"') < body.index(b"AAAA") < body.index(b'"two"')


def test_thinking_is_never_taken_for_words() -> None:
    for wire in ("anthropic", "openai_responses"):
        file = GOLDEN / wire / "stream-thinking.json"
        stream = as_stream(json.loads(file.read_text(encoding="utf-8"))["frames"])
        parts = read(speaking(wire).decoder(), [stream])
        assert [type(part) for part in parts if isinstance(part, ModelThinking)] == [ModelThinking] * 2
