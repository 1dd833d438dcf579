"""Presets of the context: how a conversation is kept short, as groups of values that belong together. Data.

`late`      waits until nine tenths are used, keeps three turns and lets the model write the summary; it does nothing
            until somebody says how much a conversation may have (`context.max_tokens`)
`messages`  counts messages: beyond a hundred the last ten stay
`fixed`     the same limit for every model, and no model is asked for a summary
"""

from __future__ import annotations

from bridle.config.setting_table import Table

_PRESETS: dict[str, Table] = {
    "late": {"max_tokens": "off", "compact_at": 0.9, "recent_turns": 3, "summary": "model"},
    "messages": {
        "max_tokens": "off",
        "max_messages": 100,
        "recent_messages": 10,
        "summary": "deterministic",
    },
    "fixed": {
        "max_tokens": 48_000,
        "compact_at": 0.7,
        "recent_turns": 6,
        "summary": "deterministic",
        "summary_tokens": 3_000,
    },
}


def preset(name: str) -> Table:
    """What a preset sets, by the names of the settings in `context`."""
    return dict(_PRESETS[name])
