"""Small languages that stand in arguments: is a sed, awk, jq or printf text proven to do nothing but compute?

Each answer is yes only where the text is wholly understood or cannot hold the dangerous construct at all.
"""

from __future__ import annotations

import re

_SED_ADDRESS = r"(?:[0-9]+(?:~[0-9]+)?|\$|/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]/\n]*\])+/I?)"
_SED_PLAIN = re.compile(rf"(?:{_SED_ADDRESS}(?:[ \t]*,[ \t]*(?:{_SED_ADDRESS}|[+~][0-9]+))?)?[ \t]*!?[ \t]*")
_SED_COMMAND = re.compile(
    r"[qQlL][ \t]*[0-9]*|[pdDPnNhHgGxz=]|[btT](?:[ \t]*[A-Za-z0-9_]+)?|:[ \t]*[A-Za-z0-9_]+|[{}]"
)
_SED_END = re.compile(r"[ \t]*(?:[;\n][ \t;\n]*|(?=\})|$)")
_SED_FLAGS = re.compile(r"[gpiI0-9]*")
_SED_TEXT = re.compile(r"[aic](?:\\\n|[ \t])[^\n\\]*(?:\n|$)")
_BRACKETS = re.compile(r"\[\^?\]?[^\]]*\]")

_AWK_RUNS = re.compile(r"system|getline|@|ARGV|ARGC|extension|\\\n|PROCINFO|ENVIRON\s*\[[^\]]*\]\s*=")
_JQ_READS = re.compile(r"\b(?:import|include|input_filename|\$__prog|get_search_list)\b")
_YQ_MORE = re.compile(r"\b(?:load\w*|system|eval|strload)\b")
_WIDE = re.compile(r"%[-+ #'.0-9$]*(?:\*|[0-9]{4})")
_PRINTF_ASSIGNS = re.compile(r"%[^A-Za-z%]*(?:[hlLjzt]*)n")


def sed_only_prints(script: str) -> bool:
    """Whether a sed script writes no file, reads no other file and runs nothing (GNU `e` `w` `r` and their kin)."""
    at = 0
    while at < len(script):
        skipped = re.compile(r"[ \t;\n]*").match(script, at)
        at = skipped.end() if skipped else at
        if at >= len(script):
            return True
        address = _SED_PLAIN.match(script, at)
        at = address.end() if address else at
        following = _sed_command_end(script, at)
        if following is None:
            return False
        at = following
    return True


def _sed_command_end(script: str, at: int) -> int | None:
    if at >= len(script):
        return None
    if script[at] in "sy":
        at_end = _substitution_end(script, at)
        if at_end is None:
            return None
    else:
        text = _SED_TEXT.match(script, at)
        if text is not None:
            return text.end()
        command = _SED_COMMAND.match(script, at)
        if command is None:
            return None
        at_end = command.end()
        if command[0] in "{}":
            return at_end
    end = _SED_END.match(script, at_end)
    return None if end is None else end.end()


def _substitution_end(script: str, at: int) -> int | None:
    """`s/a/b/flags` or `y/a/b/`: both halves closed by their own delimiter, brackets whole within one half."""
    if at + 1 >= len(script) or script[at + 1] in "\\\n \t" or script[at + 1].isalnum():
        return None
    delimiter = re.escape(script[at + 1])
    half = rf"((?:[^{delimiter}\\\n]|\\[^\n])*){delimiter}"
    match = re.compile(rf"[sy]{delimiter}{half}{half}").match(script, at)
    if match is None or "[" in _BRACKETS.sub("", re.sub(r"\\.", "", match[1])):
        return None
    flags = _SED_FLAGS.match(script, match.end())
    return flags.end() if flags and script[at] == "s" else match.end()


def awk_only_prints(program: str) -> bool:
    """Whether an awk program runs nothing, opens nothing and prints to its own output only.

    Output goes elsewhere only by `>` or `|` after a `print`; before the first `print` they compare and alternate.
    """
    if _AWK_RUNS.search(program) or _WIDE.search(program):
        return False
    _, printing, after = program.partition("print")
    return not printing or (">" not in after and "|" not in after.replace("||", ""))


def jq_only_computes(program: str) -> bool:
    return _JQ_READS.search(program) is None


def yq_only_computes(program: str) -> bool:
    return _YQ_MORE.search(program) is None


def printf_only_prints(format_: str) -> bool:
    """Whether a format sets no variable and pads nothing to more than a line (`%1000000000d` is a flood)."""
    return not (format_.startswith("-") or _PRINTF_ASSIGNS.search(format_) or _WIDE.search(format_))
