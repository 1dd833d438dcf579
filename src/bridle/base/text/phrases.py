"""Format numbers, money, ages and long words for users."""

from __future__ import annotations

_MINUTE_MS = 60_000


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shortened(text: str, most: int) -> str:
    """A text of so many characters at most; one that is longer ends with a mark."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """The same on one line."""
    return shortened(" ".join(text.split()), most)


def agent_words(subject: str) -> str:
    """`review with work` for what a rule or a grant calls `agent:review:work`; any other text as it is."""
    kind, _, rest = subject.partition(":")
    name, with_provider, provider = rest.partition(":")
    return f"{name} with {provider}" if kind == "agent" and with_provider else subject


def dollars(usd: float) -> str:
    """`$4.98`; less than a cent keeps the digits that matter, `$0.0070`."""
    return f"${usd:.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"


def window_words(tokens: int) -> str:
    """`32k` for 32768 as for 32000: the way contexts are named."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens // 1024 if tokens % 1024 == 0 else round(tokens / 1000)}k"


def age(ms: float) -> str:
    """How long ago something was, short: `5 min ago`, `47 h ago`, `3 days ago`."""
    minutes = int(ms // _MINUTE_MS)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    hours = minutes // 60
    return f"{hours} h ago" if hours < 48 else f"{hours // 24} days ago"


def spelled_age(ms: int) -> str:
    """The same in whole words, by the largest unit that fits: `1 day ago`."""
    minutes = ms // _MINUTE_MS
    for unit, length in (("day", 1440), ("hour", 60), ("minute", 1)):
        if minutes >= length:
            return f"{counted(minutes // length, unit)} ago"
    return "just now"
