"""Report skills that joined or changed."""

from __future__ import annotations

from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible
from bridle.protocol.events import SkillRegistryChanged

_OPENING = '<skill name="'


def skill_named(text: str) -> str:
    """The name of the skill whose words these are; empty where they are no skill's."""
    if not text.startswith(_OPENING):
        return ""
    return visible(text.removeprefix(_OPENING).partition('"')[0], newlines=False)[:64]


def skill_change_lines(event: SkillRegistryChanged) -> list[str]:
    """How many there are, and what is different."""
    parts = [counted(len(event.skills), "skill")]
    for word, names in (("new", event.added), ("gone", event.removed), ("changed", event.changed)):
        if names:
            parts.append(f"{word}: {_listed(names)}")
    if event.waiting:
        parts.append(f"not trusted: {_listed(event.waiting)}")
    return [f"skills   {' · '.join(parts)}", *(f"! {visible(one, newlines=False)}" for one in event.problems)]


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return visible(", ".join(names[:10]), newlines=False) + more
