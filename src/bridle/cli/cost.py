"""`bridle cost`: what was paid, by model, by session or by day, as the stored sessions tell it.

What is not known is never a number: a sum with an unknown part says so.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from bridle.app.engine import session_store
from bridle.app.models import DEMO, Models
from bridle.base.clock import SystemClock, iso_ms
from bridle.base.phrases import counted, dollars
from bridle.base.visible import visible
from bridle.cli import say, say_json
from bridle.cli.config import settings_here
from bridle.cli.unlocking import sessions_unlocked
from bridle.clients.tally import LOCAL, input_tokens, short_number
from bridle.protocol.errors import BridleError, UsageError
from bridle.protocol.events import CostIncremented
from bridle.protocol.messages import Usage
from bridle.sessions.store import SessionRow, SessionStore

_UNITS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_UNIT_NAMES: Final = {"h": "hour", "d": "day", "w": "week"}
_NAME_COLUMNS: Final = 44
NOTHING: Final = "Nothing was paid or counted"


class Paid(msgspec.Struct, kw_only=True):
    """What one model, session or day came to. `usd` is what is known; `unknown` counts requests without a price."""

    name: str
    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    unknown: int = 0
    local: bool = True

    def add(self, usage: Usage, usd: float | None, *, local: bool) -> None:
        self.requests += 1
        self.input_tokens += input_tokens(usage)
        self.cached_tokens += usage.cache_read_tokens
        self.output_tokens += usage.output_tokens
        self.usd += usd or 0.0
        self.unknown += usd is None
        self.local = self.local and local


class _Spent(msgspec.Struct, frozen=True):
    """One request of a session, and when."""

    row: SessionRow
    ts_ms: int
    cost: CostIncremented


def cost(parsed: argparse.Namespace, env: Mapping[str, str]) -> int:
    since_ms = _since_ms(parsed.since)
    tiers = settings_here(parsed, env).checked()
    models = Models(env=env, clock=SystemClock()).with_settings(tiers.get("providers") or {})
    store = session_store(sessions_unlocked(env))
    try:
        rows = [store.find(parsed.session)] if parsed.session else store.list()
        if parsed.session:
            since_ms = 0 if parsed.since is None else since_ms
        paid, total = _added(_spent(store, rows, since_ms), parsed.by, models)
    finally:
        store.close()
    if parsed.json:
        return say_json({"since_ms": since_ms, "by": parsed.by, "rows": paid, "total": total})
    span = "in this session" if parsed.session else _span(parsed.since)
    if not paid:
        return say(f"{NOTHING} {span}.\n")
    return say("\n".join(_lines(paid, total, parsed.by, span)) + "\n")


def _spent(store: SessionStore, rows: Iterable[SessionRow], since_ms: int) -> Iterator[_Spent]:
    for row in rows:
        if row.updated_ms < since_ms:
            continue
        for envelope in store.costs(row, since_ms=since_ms):
            if isinstance(envelope.event, CostIncremented):
                yield _Spent(row, envelope.ts_ms, envelope.event)


def _added(spent: Iterable[_Spent], by: str, models: Models) -> tuple[list[Paid], Paid]:
    paid: dict[str, Paid] = {}
    total = Paid(name="total")
    local: dict[str, bool] = {}
    for one in spent:
        provider = one.cost.provider
        if provider not in local:
            local[provider] = _is_local(models, provider)
        name = _name(one, by)
        for row in (paid.setdefault(name, Paid(name=name)), total):
            row.add(one.cost.usage, one.cost.usd, local=local[provider])
    listed = list(paid.values())
    if by == "day":
        listed.sort(key=lambda row: row.name, reverse=True)
    else:
        listed.sort(key=lambda row: (-row.usd, -row.input_tokens, row.name))
    return listed, total


def _name(one: _Spent, by: str) -> str:
    match by:
        case "session":
            return f"{one.row.id} {one.row.title}".strip()
        case "day":
            return iso_ms(one.ts_ms)[:10]
        case _:
            return f"{one.cost.provider}:{one.cost.model}"


def _is_local(models: Models, provider: str) -> bool:
    try:
        return provider == DEMO or models.endpoint(provider).local
    except BridleError:
        return False


def _lines(paid: list[Paid], total: Paid, by: str, span: str) -> list[str]:
    names = [_shortened(visible(row.name, newlines=False)) for row in paid]
    width = max(map(len, (*names, by, "total")))
    lines = [f"{by:<{width}}  {'in':>8}  {'cached':>6}  {'out':>8}  cost   {span}"]
    lines += [_line(name, row, width) for name, row in zip(names, paid, strict=True)]
    return lines if len(paid) == 1 else [*lines, _line("total", total, width)]


def _line(name: str, row: Paid, width: int) -> str:
    cached = f"{round(100 * row.cached_tokens / row.input_tokens)}%" if row.cached_tokens else "none"
    numbers = f"{short_number(row.input_tokens):>8}  {cached:>6}  {short_number(row.output_tokens):>8}"
    return f"{name:<{width}}  {numbers}  {_money(row)}"


def _money(row: Paid) -> str:
    if row.local:
        return LOCAL
    if row.unknown == row.requests:
        return "unknown"
    unknown = f", unknown for {row.unknown} of {row.requests} requests" if row.unknown else ""
    return f"{dollars(row.usd)}{unknown}"


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_COLUMNS else name[: _NAME_COLUMNS - 1] + "…"


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
