"""What a permission question says beyond the call: why it is asked, and what each answer would remember. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridle.base.secrets.redact import redact
from bridle.base.text.phrases import agent_words
from bridle.protocol.events import DELEGATE, KEY_COVERS, GrantMatch, Mode, Offer, Verdict
from bridle.safety.call_risk import CHANGES_POLICY, ESCALATES, CallFacts
from bridle.safety.grants import GRANT_DAYS
from bridle.safety.patterns import ALIASES
from bridle.safety.permission_policy import Decision
from bridle.safety.rules import EDITS
from bridle.safety.touched_files import POLICY_FLAG, UNSANDBOXED_FLAG

MAX_LITERAL = 2_000
"""No longer text is remembered: nobody could tell it from another in a list."""
LIFTED_WORDS: Mapping[str, str] = {POLICY_FLAG: CHANGES_POLICY, UNSANDBOXED_FLAG: ESCALATES}
_ACTIONS: Mapping[Verdict, str] = {"allow": "allowed", "ask": "approval_required", "deny": "denied"}


def explanation(query: CallFacts, decision: Decision, mode: Mode, safety_notes: Sequence[str] = ()) -> str:
    """One line that says everything a decision rests on."""
    facts = [
        f"mode={mode} tool={query.tool} risk={query.risk} action={_ACTIONS[decision.verdict]}",
        f"step={decision.step} decided_by={decision.decided_by}",
    ]
    if decision.rule:
        facts.append(f"rule={decision.rule}" + (f" ({decision.origin})" if decision.origin else ""))
    if query.policy_file:
        facts.append(CHANGES_POLICY)
    facts += (f"{LIFTED_WORDS[flag]} ({flag})" for flag in query.lifted)
    if decision.keys > 1:
        facts.append(f"{decision.keys} people must say yes")
    elif decision.for_person:
        facts.append("only a person says yes")
    return "; ".join((*facts, *safety_notes))


def because(query: CallFacts, decision: Decision) -> str:
    """Why somebody is asked, in a few words."""
    if query.must_ask:
        return query.must_ask
    if decision.decided_by == "rule":
        return decision.note or "a rule says to ask"
    if decision.decided_by == "agent":
        return "this agent asks first"
    if decision.rule == "strict" and (query.quiet or not query.concern):
        return "mode strict asks about everything"
    return query.concern


def offers(query: CallFacts, *, persists: bool) -> tuple[Offer, ...]:
    """What each answer would remember. Patterns are literal, or the parsed command's key; never a wildcard.

    Several offers of one answer hold together: a patch of two files is remembered as both. What is asked
    anew each time is never remembered; what is exceptional only as exactly this.
    """
    if query.asks_anew:
        return ()
    tool = granted_tool(query.tool)
    subjects = query.subjects
    literal = bool(subjects) and all(_can_be_kept(subject) for subject in subjects)
    found: list[Offer] = []
    if key := query.key:
        found.append(Offer(answer="pattern", tool=tool, pattern=key, match="key"))
    elif literal:
        found += [Offer(answer="pattern", tool=tool, pattern=subject) for subject in subjects]
    if not query.exceptional:
        found.append(Offer(answer="tool", tool=tool))
    if literal and persists and all(redact(subject) == subject for subject in subjects):
        found += [Offer(answer="always", tool=tool, pattern=subject, days=GRANT_DAYS) for subject in subjects]
    return tuple(found)


def granted_tool(tool: str) -> str:
    """The word a grant for this tool is written with: a yes to one way of changing files is one to the others."""
    return EDITS if tool in ALIASES[EDITS] else tool


def remembers(offer: Offer) -> str:
    """What an offer remembers and for how long, in the words of a question."""
    what = granted_words(offer.tool, offer.pattern, offer.match)
    return f"{what}, here, for {offer.days} days" if offer.days else f"{what}, until the session ends"


def granted_words(tool: str, pattern: str, match: GrantMatch) -> str:
    """What a grant lets pass. An empty pattern stands for the whole tool."""
    if not pattern:
        return "all edits" if tool == EDITS else f"every {tool} call"
    if tool == DELEGATE:
        return f"agent {agent_words(pattern)}"
    return f"{pattern} {KEY_COVERS}" if match == "key" else pattern


def _can_be_kept(subject: str) -> bool:
    return bool(subject) and len(subject) <= MAX_LITERAL
