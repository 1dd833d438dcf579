"""What a hook said, read from how its program ended. Pure.

A JSON object with a `decision` on stdout is the answer, whatever the exit code. Without one the exit code counts: 0
passes, 2 blocks with stderr as the reason, everything else is a failure. An object that was meant as a decision and
cannot be read as one is a failure too: a slip in a gate must not open it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import msgspec

HookDecision: TypeAlias = Literal["allow", "warn", "block", "ask"]
DECISIONS: tuple[str, ...] = get_args(HookDecision)

EXIT_BLOCK = 2
LIMIT_BYTES = 64 * 1024
"""How much is kept of stdout and of stderr."""
CUT = "\n[cut: more than 64 KB]"
MESSAGE_CHARACTERS = 4_000
_INTENT = b'"decision"'


class KeptOutput(NamedTuple):
    """The beginning of a stream; `cut` says that there was more."""

    data: bytes
    cut: bool = False

    @property
    def text(self) -> str:
        """For people: whatever the bytes are, with a marker where the end is missing."""
        return self.data.decode("utf-8", "replace") + (CUT if self.cut else "")


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook wants. No decision means it has nothing to say."""

    decision: HookDecision | None = None
    message: str = ""
    patch: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}


class UnusableAnswer(NamedTuple):
    """The hook failed to answer. `problem` reads as the end of a sentence."""

    problem: str


def answer_of(exit_code: int, stdout: KeptOutput, stderr: KeptOutput) -> HookAnswer | UnusableAnswer:
    """The answer of a program that ended by itself."""
    said = _object_in(stdout)
    if isinstance(said, UnusableAnswer):
        return said
    if said is not None and "decision" in said:
        return _decided(said)
    if exit_code == 0:
        return HookAnswer()
    if exit_code == EXIT_BLOCK:
        return HookAnswer(decision="block", message=_short(stderr.text) or "it gave no reason")
    ended = f"exit code {exit_code}" if exit_code > 0 else f"killed by signal {-exit_code}"
    reason = _short(stderr.text)
    return UnusableAnswer(f"{ended}: {reason}" if reason else ended)


def _object_in(stdout: KeptOutput) -> dict[str, Any] | UnusableAnswer | None:
    """The JSON object that is the whole of stdout or its last line."""
    text = stdout.data.strip()
    if stdout.cut:
        return UnusableAnswer("its answer is longer than 64 KB") if text.startswith(b"{") else None
    for candidate in (text, text.rpartition(b"\n")[2]):
        if not candidate.startswith(b"{"):
            continue
        try:
            return cast("dict[str, Any]", msgspec.json.decode(candidate))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            if candidate is text and b"\n" in text:
                continue  # perhaps braces in some log, and the answer on the last line
            return UnusableAnswer("its answer is not valid JSON") if _INTENT in candidate else None
    return None


def _decided(said: dict[str, Any]) -> HookAnswer | UnusableAnswer:
    decision, patch = said["decision"], said.get("patch")
    message, metadata = said.get("message"), said.get("metadata")
    if decision not in DECISIONS:
        return UnusableAnswer(f"its decision {_short(str(decision), 40)!r} is none of {', '.join(DECISIONS)}")
    if patch is not None and not isinstance(patch, dict):
        return UnusableAnswer("its patch is not an object")
    return HookAnswer(
        decision=cast("HookDecision", decision),
        message=_short(message) if isinstance(message, str) else "",
        patch=cast("dict[str, Any] | None", patch),
        metadata=cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {},
    )


def patched(given: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The input with the patch laid over it: its keys replace, null takes a key out."""
    return {
        name: value for name, value in {**given, **patch}.items() if value is not None or name not in patch
    }


def _short(text: str, characters: int = MESSAGE_CHARACTERS) -> str:
    text = text.strip()
    return text if len(text) <= characters else text[:characters] + "…"
