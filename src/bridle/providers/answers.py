"""The parts of an answer that all wires read alike: its faults, its text, its calls. Pure, and knows no vendor."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from bridle.engine.ports import ModelCall, ModelDone, ModelPart, ModelText, ModelThinking, ModelThought
from bridle.engine.sizes import CALL, AnswerRoom, too_long
from bridle.protocol.messages import AnyBlock, StopReason, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from bridle.providers.failures import VendorError

# A conversation may hold ids of another vendor, who was freer.


_STRICT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def strict_id(wire_id: str) -> str:
    """The id itself if it is strict, else one that always stands for it."""
    if _STRICT.match(wire_id):
        return wire_id
    digest = hashlib.sha256(wire_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', wire_id)[:40]}_{digest[:12]}"


T = TypeVar("T")

_ENCODER: Final = msgspec.json.Encoder()
_MOST: Final = 2**53
_LARGE: Final = 64 * 1024
_MOST_THINGS: Final = 300_000
"""So many values a piece may hold: a small one takes a hundred times the memory of its JSON."""


class AnswerFault(Exception):
    """An answer that is none. `problem` is a clause for a person; `error` what the vendor said, if it said so."""

    def __init__(self, problem: str, *, error: VendorError | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.error = error


CUT: Final = "it ended in the middle"
EMPTY: Final = "it is empty"
NO_ANSWER: Final = "it holds no answer"
NOT_TEXT: Final = "it is not UTF-8"
REPORTED: Final = "the vendor reports an error"


class Decoder(Protocol):
    """One answer of a wire, frame by frame. What it returns depends on the frames alone, not on how they were read.

    `feed` takes the data of the frames of one read and returns what can be told by then, neighbouring texts joined. A
    whole answer that was not streamed is one frame. Thoughts and calls come out whole and only at the end, before the
    one `ModelDone`. `finish` is the end of the stream. Both raise `AnswerFault`, and `AnswerTooLong` where what waits
    for the end is more than an answer may hold.
    """

    @property
    def room(self) -> AnswerRoom:
        """What is left for what it gathers: less and less while a call or a thought is being told."""
        ...

    @property
    def is_done(self) -> bool: ...
    @property
    def is_told(self) -> bool:
        """Whether the vendor has said why its answer ends: what may be missing then is the price."""
        ...

    def feed(self, frames: Iterable[str]) -> list[ModelPart]: ...
    def finish(self) -> list[ModelPart]: ...


def decode_answer(decoder: Decoder, body: bytes) -> list[ModelPart]:
    """An answer that was not streamed, as the parts a stream of it would give. Raises `AnswerFault`."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise AnswerFault(NOT_TEXT) from None
    return [*decoder.feed((text,)), *decoder.finish()]


def read_frame(reader: msgspec.json.Decoder[T], data: str) -> T:
    """One frame as its wire's type."""
    if len(data) > _LARGE and data.count("{") + data.count("[") + data.count(",") > _MOST_THINGS:
        raise too_long()
    try:
        return reader.decode(data)
    except msgspec.ValidationError:
        raise AnswerFault("it does not have the form of an answer") from None
    except (msgspec.DecodeError, UnicodeError):
        pass
    except RecursionError:
        raise AnswerFault("it is nested too deeply") from None
    # Servers that cut text by UTF-16 units send half a character as an escape of its own, which only the
    # standard library reads; the halves meet again in `StreamedText`.
    import json

    try:
        return msgspec.convert(json.loads(data), reader.type)
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise AnswerFault("it is not JSON") from None


# Text

TextKind: TypeAlias = Literal["text", "thinking"]


class StreamedText:
    """Text as it comes: neighbours of one kind joined, and no half of a character let through."""

    def __init__(self) -> None:
        self._said = 0
        self._kind: TextKind = "text"
        self._pieces: list[str] = []
        self._parts: list[ModelPart] = []
        self._half = ""

    @property
    def said(self) -> int:
        """How many characters of text, not of thinking, there were so far."""
        self._close(keep_half=True)
        return self._said

    def add(self, kind: TextKind, text: str) -> None:
        if kind != self._kind:
            self._close()
            self._kind = kind
        self._pieces.append(text)

    def taken(self, *, final: bool = False) -> list[ModelPart]:
        """What came since the last time. Half a character waits for its other half."""
        self._close(keep_half=not final)
        parts, self._parts = self._parts, []
        return parts

    def _close(self, *, keep_half: bool = False) -> None:
        if not self._pieces and not self._half:
            return
        text = self._half + "".join(self._pieces)
        self._pieces.clear()
        self._half = ""
        if keep_half and "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if text := whole(text):
            if self._kind == "text":
                self._said += len(text)
                self._parts.append(ModelText(text))
            else:
                self._parts.append(ModelThinking(text))


def whole(text: str) -> str:
    """Halves of a character put together; a half that stays alone becomes the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encoded(value: Mapping[str, Any]) -> bytes:
    """JSON of what a vendor sent, also where half a character stands in it: as the escape it came as."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        import json

        return json.dumps(value, separators=(",", ":")).encode()


# Calls


class GatheredText:
    """Text that comes in small pieces and is wanted whole, within the room of its answer."""

    def __init__(self, room: AnswerRoom) -> None:
        self._room = room
        self._text = StringIO()  # a list would take ten times the memory of its pieces

    def add(self, text: str) -> None:
        self._room.take(len(text))
        self._text.write(text)

    def clear(self) -> None:
        self._room.give_back(self._text.tell())
        self._text = StringIO()

    def __str__(self) -> str:
        return self._text.getvalue()


class PartialCall:
    """A call that is still being told."""

    def __init__(self, room: AnswerRoom) -> None:
        room.take(CALL)
        self.id = ""
        self.tool = ""
        self._room = room
        self._arguments = GatheredText(room)

    @property
    def arguments(self) -> str:
        return str(self._arguments)

    def name(self, wire_id: str, tool: str) -> None:
        """Its id and its tool; what is empty stays as it was."""
        if (wire_id or self.id, tool or self.tool) != (self.id, self.tool):
            self._room.take(len(wire_id) + len(tool))
            self.id, self.tool = wire_id or self.id, tool or self.tool

    def add(self, arguments: str | Mapping[str, Any] | None) -> None:
        """More of its arguments: a piece of JSON text, or all of them as an object."""
        if isinstance(arguments, str):
            self._arguments.add(arguments)
        elif arguments is not None:
            self._arguments.add(encoded(arguments).decode())

    def replace(self, arguments: str) -> None:
        """All of its arguments, told once more."""
        self._arguments.clear()
        self._arguments.add(arguments)


def ending(
    texts: StreamedText,
    calls: Iterable[PartialCall],
    *,
    stop: StopReason,
    usage: Usage,
    thoughts: Sequence[ModelThought] = (),
) -> list[ModelPart]:
    """The last parts of an answer. Whether calls were made is seen, not believed; a withheld answer makes none."""
    parts = texts.taken(final=True)
    made = () if stop in {"content_filter", "error"} else _finished(calls, cut=stop == "max_tokens")
    return [*parts, *thoughts, *made, ModelDone("tool_use" if made else stop, usage)]


def _finished(calls: Iterable[PartialCall], *, cut: bool) -> Sequence[ModelCall]:
    """The calls, in order. An answer that ran out of tokens keeps those that were finished."""
    made: list[ModelCall] = []
    for call in calls:
        arguments = whole(call.arguments)
        if cut and not is_object(arguments):
            continue
        if not call.tool:
            raise AnswerFault("a tool call has no name")
        made.append(ModelCall(call.tool, arguments, call.id or None))
    return made


def is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def count(given: Mapping[str, Any], *names: str) -> int:
    """The first of these numbers that is above zero, as tokens."""
    for name in names:
        value = given.get(name)
        if isinstance(value, int | float) and 0 < value < _MOST:
            return int(value)
    return 0


# A step keeps its thinking, its text and its calls apart. Vendors that sign their reasoning want it back in
# the order it had, so every thought remembers how much text and how many calls came before it. A thought that
# was changed on its way through the log, because a secret was taken out of it, would be refused; it is left
# out.


class _Opaque(msgspec.Struct, frozen=True, array_like=True):
    text_before: int
    calls_before: int
    digest: str
    item: msgspec.Raw


_OPAQUE: Final = msgspec.json.Decoder(_Opaque)


class AnswerPosition(NamedTuple):
    """Where in an answer: after so many characters of text and so many calls."""

    text: int
    calls: int


def thought(family: str, item: Mapping[str, Any], place: AnswerPosition) -> ModelThought:
    """An item of a vendor's own, to be given back to `family` unchanged."""
    raw = encoded(item)
    opaque = _Opaque(place.text, place.calls, _digest(raw), msgspec.Raw(raw))
    return ModelThought(ThinkingBlock(family=family, opaque=_ENCODER.encode(opaque).decode()))


AnswerPiece: TypeAlias = str | ToolUseBlock | msgspec.Raw
"""A piece of an answer in its order: text, a call, or an item of the vendor's own."""


def pieces(content: Iterable[AnyBlock], family: str) -> Iterator[AnswerPiece]:
    """The pieces of an assistant message, thoughts of `family` at their places and those of others left out."""
    blocks = tuple(content)
    thoughts = [
        opaque
        for block in blocks
        if isinstance(block, ThinkingBlock) and block.family == family and (opaque := _read(block.opaque))
    ]
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    said = made = 0
    for each in thoughts:
        if text[said : each.text_before]:
            yield text[said : each.text_before]
        yield from calls[made : each.calls_before]
        said, made = max(said, each.text_before), max(made, each.calls_before)
        yield each.item
    if text[said:]:
        yield text[said:]
    yield from calls[made:]


def without_last_thoughts(made: list[Any]) -> list[Any]:
    """An encoded answer without the thoughts that nothing follows, as in one that was cut off: no vendor takes them."""
    while made and isinstance(made[-1], msgspec.Raw):
        made.pop()
    return made


def _read(opaque: str) -> _Opaque | None:
    try:
        found = _OPAQUE.decode(opaque)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return found if _digest(bytes(found.item)) == found.digest else None


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]
