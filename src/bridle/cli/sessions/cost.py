"""`bridle cost`: spending by model, session, day or purpose.

What is not known is never a number: a sum with an unknown part says so.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import Final

from bridle.app.queries.query_answers import cost_sum
from bridle.app.user.stored_keys import session_store
from bridle.base.clock import SystemClock
from bridle.base.text.phrases import counted, dollars, shortened
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say, say_json, say_lines
from bridle.cli.option_values import settings_here
from bridle.cli.stdin import sessions_unlocked
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.render.usage import LOCAL, short_number
from bridle.protocol.errors import UsageError
from bridle.protocol.queries import CostRow, CostSum
from bridle.providers.model_directory import Models

_UNITS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_UNIT_NAMES: Final = {"h": "hour", "d": "day", "w": "week"}
_NAME_COLUMNS: Final = 44
NOTHING: Final = "Nothing was paid or counted"


def cost(parsed: Args, env: Env) -> int:
    since_ms = _since_ms(parsed.since)
    tiers = settings_here(parsed, env).checked()
    models = Models(env=env, clock=SystemClock()).with_settings(tiers.get("providers") or {})
    with closing(session_store(sessions_unlocked(env))) as store:
        rows = [store.find(parsed.session)] if parsed.session else store.list()
        if parsed.session:
            since_ms = 0 if parsed.since is None else since_ms
        paid = [(row, store.costs(row, since_ms=since_ms)) for row in rows if row.updated_ms >= since_ms]
        found = cost_sum(paid, by=parsed.by, models=models)
    if parsed.json:
        return say_json({"since_ms": since_ms, "by": parsed.by, "rows": found.rows, "total": found.total})
    span = "in this session" if parsed.session else _span(parsed.since)
    if not found.rows:
        return say(f"{NOTHING} {span}.\n")
    return say_lines(_lines(found, parsed.by, span))


def _lines(found: CostSum, by: str, span: str) -> list[str]:
    paid = found.rows
    names = [shortened(visible_line(row.name), _NAME_COLUMNS) for row in paid]
    width = max(map(len, (*names, by, "total")))
    lines = [f"{by:<{width}}  {'in':>8}  {'cached':>6}  {'out':>8}  cost   {span}"]
    lines += [_line(name, row, width) for name, row in zip(names, paid, strict=True)]
    return lines if len(paid) == 1 else [*lines, _line("total", found.total, width)]


def _line(name: str, row: CostRow, width: int) -> str:
    cached = f"{round(100 * row.cached_tokens / row.input_tokens)}%" if row.cached_tokens else "none"
    numbers = f"{short_number(row.input_tokens):>8}  {cached:>6}  {short_number(row.output_tokens):>8}"
    return f"{name:<{width}}  {numbers}  {_money(row)}"


def _money(row: CostRow) -> str:
    if row.local:
        return LOCAL
    if row.unknown == row.requests:
        return "unknown"
    unknown = f", unknown for {row.unknown} of {row.requests} requests" if row.unknown else ""
    return f"{dollars(row.usd)}{unknown}"


def _since_ms(text: str | None) -> int:
    """`7d`, `12h`, `2w` ago, or `all`; a week where nothing is said."""
    if text == "all":
        return 0
    found = re.fullmatch(r"([0-9]{1,4})([hdw])", text or "7d")
    if found is None:
        raise UsageError(f'"{text}" is no span of time. Write --since 7d, 12h, 2w or all')
    return int(time.time() * 1000) - int(found[1]) * _UNITS[found[2]]


def _span(text: str | None) -> str:
    if text == "all":
        return "in all"
    number, unit = (text or "7d")[:-1], (text or "7d")[-1]
    return f"in the last {counted(int(number), _UNIT_NAMES[unit])}"
