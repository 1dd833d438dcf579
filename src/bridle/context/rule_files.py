"""A rule file of another editor (`.mdc`): a header between two lines of `---`, then the text. Pure.

    ---
    description: how tests are written
    globs: tests/**/*.py, *.spec.ts
    alwaysApply: false
    ---

Obeyed is what is documented: `alwaysApply: true` and a file without a header count always, `globs` when a file they
name is touched. A rule with neither waits there for a person or a model to choose it, and is not used here.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from bridle.base.fs.path_patterns import BadPathPattern, PathPattern, anywhere

RuleUse: TypeAlias = Literal["always", "with its files", "by hand"]
MAX_GLOBS: Final = 50
_RULE: Final = "---"


def read_rule(text: str) -> tuple[str, RuleUse, tuple[str, ...]]:
    """What the model reads, when it counts, and for which files. Whatever the text is, it is read as something."""
    lines = text.removeprefix("\ufeff").splitlines()
    ends = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), None)
    if not lines or lines[0].rstrip() != _RULE or ends is None:
        return text, "always", ()
    header, body = lines[1:ends], "\n".join(lines[ends + 1 :])
    globs = tuple(dict.fromkeys(filter(_is_pattern, _globs(header))))[:MAX_GLOBS]
    if _value(header, "alwaysApply").casefold() == "true":
        return body, "always", ()
    return body, "with its files" if globs else "by hand", globs


def rule_names(globs: tuple[str, ...], path: str) -> bool:
    """Whether one of the patterns names this file, a path below the project."""
    parts = path.split("/")
    return any(PathPattern(anywhere(glob)).matches(parts) for glob in globs)


def _value(header: list[str], key: str) -> str:
    for line in header:
        name, colon, value = line.partition(":")
        if colon and name.strip() == key:
            return _bare(value)
    return ""


def _globs(header: list[str]) -> list[str]:
    """Comma-separated in one line, in brackets, or one a line with a dash. A comma inside `{a,b}` belongs to it."""
    found: list[str] = []
    inside = False
    for line in header:
        if inside and line.lstrip().startswith("- "):
            found.append(_bare(line.lstrip()[2:]))
            continue
        name, colon, value = line.partition(":")
        inside = bool(colon) and name.strip() == "globs"
        if inside:
            value = value.strip()
            if value.startswith("[") and value.endswith("]"):
                value = value[1:-1]
            found += map(_bare, _split(value))
    return [one.removeprefix("./") for one in found if one]


def _split(value: str) -> list[str]:
    parts, depth = [""], 0
    for sign in value:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _bare(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _is_pattern(glob: str) -> bool:
    try:
        PathPattern(anywhere(glob))
    except BadPathPattern:
        return False
    return True
