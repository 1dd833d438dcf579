"""Text that would do something to a terminal or to its reader, and how to find it in what was printed."""

from bridle.base.text.terminal_text import visible

PIECES = (
    "\x1b[31mred\x1b[0m",  # a colour
    "\x1b[2J\x1b[H",  # an empty screen
    "\x1b]52;c;aGVsbG8=\x07",  # the clipboard
    "\x1b]8;;http://host.invalid\x1b\\link\x1b]8;;\x1b\\",  # a link to somewhere else
    "\x1b]0;title\x07",  # the title
    "over\rwrite",  # a line over itself
    "back\x08\x08\x08",  # the same, letter by letter
    "\x9b31mC1",  # the controls above ASCII
    "\x7fdel",
    "\u202egnp.exe\u202c",  # text the other way round
    "\u2066iso\u2069",
    "zero\u200bwidth\u2060\ufeff",
    "\U000e0049\U000e0067tag",  # letters nobody sees
    "soft\xadhyphen",
    "para\u2029graph",
)
HOSTILE = "".join(PIECES)
ONE_LINE = HOSTILE.replace("\u2029", "")
"""The same without what some readers of lines take for the end of one."""
A_NAME = ONE_LINE.replace("/", "")
"""The same as the name of a file or folder."""


def check_safe(text: str) -> None:
    """Nothing in it does anything, and something of what was meant to is written out."""
    text = text.replace("\r\n", "\n")  # a terminal's own line ends
    assert visible(text) == text, f"not safe: {[c for c in text if visible(c) != c][:9]} in {text[-3000:]!r}"
    assert "[31mred" in text, f"the hostile text did not come here: {text[-3000:]!r}"


def check_none_obeyed(output: str) -> None:
    """No piece of it stands in an output that holds codes of our own."""
    for piece in PIECES:
        assert piece not in output, f"{piece!r} was written to the terminal"
    assert "[31mred" in output, "the hostile text did not come here"
