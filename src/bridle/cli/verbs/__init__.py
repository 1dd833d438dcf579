"""The table of verbs: every verb, action, argument and option, once.

Parser, dispatch, help pages, manual page, completion and `docs/command-line.md` are made from these rows. A row
names the module of its verb and does not import it.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridle.cli.verbs import access_verbs, mcp_verbs, session_verbs, setup_verbs
from bridle.cli.verbs.rows import Verb

TALK = session_verbs.TALK.name
"""The verb of a call without one: nothing at all, options, or a prompt of several words."""

VERBS: Mapping[str, Verb] = {
    verb.name: verb for rows in (session_verbs, access_verbs, mcp_verbs, setup_verbs) for verb in rows.VERBS
}
"""Every verb by name."""


def verb_names(verbs: Mapping[str, Verb]) -> tuple[str, ...]:
    return (*(name for name in verbs if name != TALK), "help")
