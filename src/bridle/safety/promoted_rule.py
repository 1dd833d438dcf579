"""A remembered yes as a rule: the one that means what the grant meant, and no more."""

from __future__ import annotations

from bridle.protocol.events import KEY_COVERS
from bridle.safety.grants import Grant
from bridle.safety.patterns import ALIASES, literal_pattern
from bridle.safety.rules import COMMAND_TOOLS


def rule_of(grant: Grant) -> dict[str, str]:
    """As settings have it: its text and nothing else, its program if harmless, or the tool."""
    if grant.subject is None:
        return {"tool": grant.tool, "verdict": "allow"}
    if grant.match == "key":
        return {"tool": grant.tool, "program": grant.subject, "verdict": "allow"}
    about = "command" if set(ALIASES.get(grant.tool, (grant.tool,))) <= COMMAND_TOOLS else "path"
    return {"tool": grant.tool, about: literal_pattern(grant.subject), "verdict": "allow"}


def promoted_words(grant: Grant) -> str:
    """What the rule is about."""
    what = f"{grant.tool}({grant.subject})" if grant.subject else f"every {grant.tool} call"
    return f"{what} {KEY_COVERS}" if grant.match == "key" else what
