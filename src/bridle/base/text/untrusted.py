"""Wrap text from untrusted sources so that the model can tell it from user text.

The wrapper only helps if its content cannot close it: whatever inside looks like a wrapper's tag, however
it is spaced or spelled, loses its `<`.
"""

import functools
import re

# Between any two characters of a forged tag there may be blanks and characters that do not show.
_UNSEEN = (
    r"[\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]*"
)


def wrap(kind: str, text: str) -> str:
    """`<untrusted-KIND>text</untrusted-KIND>`, where no part of `text` can pass for such a tag.

    `kind` is ours, never taken from outside: small letters, digits and single hyphens.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", kind):
        raise ValueError(f"not a kind of untrusted text: {kind!r}")
    return f"<untrusted-{kind}>{neutralise(text)}</untrusted-{kind}>"


def unwrapped(kind: str, text: str) -> str:
    """What `wrap` was given, but for what it had to neutralise; a text that is not wrapped as this stays."""
    return text.removeprefix(f"<untrusted-{kind}>").removesuffix(f"</untrusted-{kind}>")


def neutralise(text: str) -> str:
    """`text` with the `<` of everything that looks like a wrapper's tag written as `&lt;`."""
    if "<" not in text and "\uff1c" not in text:
        return text
    return _tags().sub(lambda tag: "&lt;" + tag[0][1:], text)


@functools.cache
def _tags() -> re.Pattern[str]:
    # The fullwidth signs are read as < and / by models and people alike.
    return re.compile(
        "[<\uff1c]" + _UNSEEN + "(?:[/\uff0f]" + _UNSEEN + ")*" + _UNSEEN.join("untrusted"), re.IGNORECASE
    )
