"""Test vectors: cases as JSON that any implementation, in any language, can be held to.

A vector file lies in `test-vectors/NAME.json` and looks like

    {"about": "what the cases show and how to read them",
     "cases": [{"name": "…", "input": …, "expected": …}, …]}

`run(name, implementation)` gives each input to the implementation and compares what it returns; an empty list
of failures means agreement. Files whose input or comparison is special have a function of their own here.
"""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeAlias, cast

import msgspec

Json: TypeAlias = Any
"""A decoded JSON value."""

_FRAME_FIELDS = ("event", "data", "id", "retry")


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question and its answer. Names are unique within a file."""

    name: str
    input: Json
    expected: Json


class VectorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    cases: list[Case]


class Failure(msgspec.Struct, frozen=True):
    """A case an implementation got wrong. `actual` is what it returned, or the text of what it raised."""

    case: str
    expected: Json
    actual: Json


def names() -> list[str]:
    """The vector files that ship, without their ending."""
    entries = files("bridle.conformance").joinpath("test-vectors").iterdir()
    return sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json"))


def load(name: str) -> list[Case]:
    """The cases of one file. Raises LookupError if there is no such file."""
    if name not in names():
        raise LookupError(f"no vectors named {name!r}; there are: {', '.join(names())}")
    text = files("bridle.conformance").joinpath("test-vectors", f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=VectorFile).cases


def run(
    name: str,
    implementation: Callable[[Json], Json],
    *,
    agrees: Callable[[Json, Json], bool] = lambda expected, actual: expected == actual,
) -> list[Failure]:
    """Hold an implementation to a file: it gets each input and returns what `agrees` accepts as expected."""
    return [failure for case in load(name) if (failure := _tried(case, implementation, agrees))]


def run_sse(implementation: Callable[[list[bytes]], Iterable[object]]) -> list[Failure]:
    """Hold an SSE parser to `sse-frames`: it gets the chunks of one stream and returns the frames in order.

    A frame is a mapping or an object with the fields event, data, id and retry. Each case runs three times:
    in its own chunks, in one piece, and byte by byte; the frames must be the same.
    """

    def frames(chunks: list[bytes]) -> list[Json]:
        return [_frame_as_json(frame) for frame in implementation(chunks)]

    def parse(case_input: Json) -> Json:
        return frames(sse_chunks(case_input))

    def parse_whole(case_input: Json) -> Json:
        return frames([b"".join(sse_chunks(case_input))])

    def parse_bytes(case_input: Json) -> Json:
        stream = b"".join(sse_chunks(case_input))
        return frames([stream[at : at + 1] for at in range(len(stream))])

    return [failure for way in (parse, parse_whole, parse_bytes) for failure in run("sse-frames", way)]


def sse_chunks(case_input: Mapping[str, Json]) -> list[bytes]:
    """The chunks of an `sse-frames` case as bytes: text in UTF-8, or base64 where the case says so."""
    chunks: Sequence[str] = case_input["chunks"]
    if case_input.get("base64", False):
        return [base64.b64decode(chunk, validate=True) for chunk in chunks]
    return [chunk.encode() for chunk in chunks]


def run_backoff(delay_ms: Callable[[int, int, int, float], float]) -> list[Failure]:
    """Hold `delay_ms(base_ms, max_ms, attempt, random)` to the bounds in `backoff-timing`.

    `random` is the number in [0, 1) that the implementation's jitter draws.
    """

    def wait(case_input: Json) -> Json:
        return delay_ms(
            case_input["base_ms"], case_input["max_ms"], case_input["attempt"], case_input["random"]
        )

    def within(expected: Json, actual: Json) -> bool:
        return expected["at_least_ms"] <= actual <= expected["at_most_ms"]

    return run("backoff-timing", wait, agrees=within)


def _tried(
    case: Case, implementation: Callable[[Json], Json], agrees: Callable[[Json, Json], bool]
) -> Failure | None:
    try:
        actual = implementation(case.input)
        agreed = agrees(case.expected, actual)
    except Exception as error:  # noqa: BLE001 - a foreign implementation may raise anything; the rest still run
        return Failure(case.name, case.expected, f"raised {type(error).__name__}: {error}")
    return None if agreed else Failure(case.name, case.expected, actual)


def _frame_as_json(frame: object) -> Json:
    if isinstance(frame, Mapping):
        fields = cast("Mapping[str, Json]", frame)
        return {field: fields.get(field) for field in _FRAME_FIELDS}
    return {field: getattr(frame, field) for field in _FRAME_FIELDS}
