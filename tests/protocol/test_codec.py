"""Commands, events and envelopes as bytes, both ways."""

import json
import string
from typing import get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridle.base.secrets.secret_openings import might_hold_secret
from bridle.protocol import commands, events
from bridle.protocol.codec import (
    COMMAND_KINDS,
    DURABLE_KINDS,
    EVENT_KINDS,
    decode_command,
    decode_envelope,
    decode_payload,
    encode_command,
    encode_envelope,
    encode_payload,
)
from bridle.protocol.commands import CreateSession, SessionOptions
from bridle.protocol.errors import CommandRefused
from bridle.protocol.events import Envelope, TextDelta, UnknownEvent
from bridle.protocol.messages import TextBlock
from tables import table

SESSION = "sess_" + "0" * 26
CLIENT = "cli_" + "0" * 26


def enveloped(event, kind, **fields):
    return Envelope(
        id=7, kind=kind, session=SESSION, originator=CLIENT, ts_ms=1_747_000_000_123, event=event, **fields
    )


def value_of(kind):
    """A plausible value for any type the protocol uses."""
    return msgspec.convert(_sample(kind), kind, strict=False)


def _sample(kind):
    info = msgspec.inspect.type_info(kind)
    return _sample_of(info)


def _sample_of(info):
    match info:
        case msgspec.inspect.StructType():
            fields = {f.encode_name: _sample_of(f.type) for f in info.fields if f.required}
            if info.tag is not None:
                fields[info.tag_field] = info.tag
            return fields
        case msgspec.inspect.StrType() | msgspec.inspect.AnyType():
            return "text"
        case msgspec.inspect.IntType():
            return 3
        case msgspec.inspect.FloatType():
            return 1.5
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.LiteralType():
            return info.values[0]
        case msgspec.inspect.DictType():
            return {"key": _sample_of(info.value_type)}
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            return [_sample_of(info.item_type)]
        case msgspec.inspect.UnionType():
            return _sample_of(info.types[0])
        case _:
            raise AssertionError(info)


@pytest.mark.requirement("G24.1", "G1.6")
@table("kind", [*get_args(events.DurableEvent), *get_args(events.LiveEvent)])
def test_every_event_survives_a_round_trip_in_its_envelope(kind):
    event = value_of(kind)
    envelope = enveloped(event, kind.__name__, turn=2, agent_path=("main", "review"), invocation="inv_1")
    assert decode_envelope(encode_envelope(envelope)) == envelope


@pytest.mark.requirement("G16.1", "G16.2", "G16.3", "G16.7")
@table("kind", get_args(commands.AnyCommand))
def test_every_command_survives_a_round_trip_and_names_its_kind(kind):
    command = value_of(kind)
    raw = encode_command(command)
    assert json.loads(raw)["kind"] == kind.__name__
    assert decode_command(raw) == command


@pytest.mark.requirement("G24.1")
def test_the_envelope_has_the_same_fields_on_every_transport():
    wire = json.loads(encode_envelope(enveloped(TextDelta(text="hi"), "TextDelta")))
    assert wire == {
        "id": 7,
        "kind": "TextDelta",
        "session": SESSION,
        "originator": CLIENT,
        "ts": "2025-05-11T21:46:40.123Z",
        "payload": {"text": "hi"},
    }


def test_a_live_event_has_no_id_on_the_wire():
    envelope = msgspec.structs.replace(enveloped(TextDelta(text="hi"), "TextDelta"), id=None)
    assert "id" not in json.loads(encode_envelope(envelope))
    assert decode_envelope(encode_envelope(envelope)) == envelope


@pytest.mark.requirement("G25.1")
def test_fields_a_reader_does_not_know_are_ignored():
    assert decode_payload("TextDelta", b'{"text":"hi","colour":"red"}') == TextDelta(text="hi")
    raw = b'{"kind":"CancelTurn","session":"s","x_urgent":true}'
    assert decode_command(raw) == commands.CancelTurn(session="s")


@pytest.mark.requirement("G1.6")
@given(st.text(string.ascii_letters, min_size=1), st.dictionaries(st.text(), st.integers()))
def test_an_unknown_kind_is_kept_byte_for_byte(kind, body):
    raw = json.dumps(body, indent=1).encode()
    kind = "X" + kind
    event = decode_payload(kind, raw)
    assert event == UnknownEvent(kind=kind, raw=raw)
    assert encode_payload(event) == raw


@table(
    ("raw", "reason"),
    [
        (b"{", "UnknownCommand"),
        (b"[]", "UnknownCommand"),
        (b'{"kind":"Explode"}', "UnknownCommand"),
        (b'{"kind":"SendInput"}', "BadCommand"),
        (b'{"kind":"SetMode","session":"s","mode":"yollo"}', "BadCommand"),
    ],
)
def test_a_command_that_cannot_be_read_is_refused_with_a_reason(raw, reason):
    with pytest.raises(CommandRefused) as refused:
        decode_command(raw)
    assert refused.value.reason == reason


@table(
    ("config", "problem"),
    [
        ({"colour": "red"}, "Object contains unknown field `colour` - at `$.config`"),
        ({"profile": "mine"}, "Object contains unknown field `profile` - at `$.config`"),
        ({"agent": "plan"}, "Object contains unknown field `agent` - at `$.config`"),
        ({"max_steps": "many"}, "Expected `int | null`, got `str` - at `$.config.max_steps`"),
        ({"on_ask": "shout"}, "Invalid enum value 'shout' - at `$.config.on_ask`"),
        (["yes"], "Expected `object`, got `array` - at `$.config`"),
    ],
)
def test_options_of_a_session_that_cannot_be_read_are_refused_by_name(config, problem):
    raw = json.dumps({"kind": "CreateSession", "cwd": "/w", "config": config}).encode()
    with pytest.raises(CommandRefused) as refused:
        decode_command(raw)
    assert refused.value.reason == "BadCommand"
    assert refused.value.message == f"The command CreateSession cannot be read: {problem}."


def test_options_that_are_not_given_are_not_sent():
    plain = CreateSession(cwd="/w")
    assert encode_command(plain) == b'{"kind":"CreateSession","cwd":"/w"}'
    some = CreateSession(cwd="/w", config=SessionOptions(sandbox="off", deny=("bash",)))
    assert encode_command(some) == (
        b'{"kind":"CreateSession","cwd":"/w","config":{"deny":["bash"],"sandbox":"off"}}'
    )
    assert decode_command(encode_command(some)) == some


@given(st.binary(max_size=200))
@example(b'"\x80"')
@example(b'{"kind": "SendInput", "session": "\x80"}')
@example(b'{"kind": ' + b"[" * 100_000)
def test_arbitrary_bytes_are_refused_and_never_crash_the_decoder(raw):
    with pytest.raises(CommandRefused):
        decode_command(raw)


@pytest.mark.requirement("G23.1")
def test_the_kinds_are_the_unions_and_durable_ones_are_told_apart():
    assert set(EVENT_KINDS) >= DURABLE_KINDS
    assert set(EVENT_KINDS) - DURABLE_KINDS == {kind.__name__ for kind in get_args(events.LiveEvent)}
    assert len(COMMAND_KINDS) == len(set(COMMAND_KINDS))
    assert {"HookError", "HookTimeout", "CustomEvent"} <= set(EVENT_KINDS)


def test_an_inputs_words_are_its_text_blocks():
    assert events.text_of((TextBlock(text="fix"), TextBlock(text="it"))) == "fix it"


def test_what_is_remembered_is_found_by_what_earlier_versions_called_its_key() -> None:
    payload = b'{"key":"sess_1/explore@demo:/work","agent":"explore","memory":{"summary":"s"}}'
    event = decode_payload("ChildMemoryUpdated", payload)
    assert event == events.ChildMemoryUpdated(
        memory_id="sess_1/explore@demo:/work", agent="explore", memory=events.ChildMemory(summary="s")
    )
    with pytest.raises(msgspec.ValidationError):
        decode_payload("ChildMemoryUpdated", b'{"agent":"explore","memory":{}}')


KINDS = (*get_args(events.DurableEvent), *get_args(events.LiveEvent))


@table("kind", KINDS)
def test_no_name_of_a_field_is_looked_at_as_if_it_were_given_a_secret(kind: type[events.Event]) -> None:
    """Else every event of its kind would be taken apart and put together again. `keys` is said where two are needed."""
    names = {*kind.__struct_fields__} - {"keys"}
    words = dict.fromkeys(names, "sess_01M7NF4JRPSQQ141F9XS and more")
    assert not might_hold_secret(msgspec.json.encode(words))
