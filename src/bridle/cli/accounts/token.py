"""`bridle token`: mint, list and revoke capability tokens."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

import msgspec

from bridle.app.user.stored_keys import session_store
from bridle.base.clock import SystemClock, iso_ms
from bridle.base.ids import Ids, short_ids
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say, say_json, say_lines, say_raw, tell
from bridle.cli.sessions.session_changes import minute
from bridle.cli.sessions.sessions import COLUMNS
from bridle.cli.stdin import refuse_tool_calls, sessions_unlocked
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.cells import cut
from bridle.clients.interaction.render.call_text import approver
from bridle.config.folders import folders
from bridle.control.capability_tokens import IssuedToken, Tokens
from bridle.control.minting import described, refuse_bad_name
from bridle.control.service_audit import ServiceAudit, answers_of
from bridle.control.token_files import TokenFile, open_tokens, write_token_file
from bridle.credentials.locks import machine_key_of
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.events import Approval
from bridle.protocol.tokens import APPROVE, WATCH

_UNITS: Final = {"m": 60, "h": 3600, "d": 24 * 3600}
_LONGEST_S: Final = 400 * 24 * 3600


def token(parsed: Args, env: Env) -> int:
    clock = SystemClock()
    where = folders(env)
    audit = ServiceAudit(where.state, clock)
    if parsed.action == "audit":
        return _audit(parsed, env, audit)
    register = TokenFile(where.state, clock)
    if parsed.action == "list":
        return _list(register, parsed, clock)
    refuse_tool_calls(where)
    tokens = open_tokens(
        register,
        clock=clock,
        ids=Ids(clock.now_ms, os.urandom),
        machine_key=machine_key_of(env),
        hear=lambda _reason, _data: None,
    )
    if parsed.action == "revoke":
        return _revoke(tokens, _meant(parsed.jti, register), audit)
    return _mint(tokens, parsed, env, audit)


def _mint(tokens: Tokens, parsed: Args, env: Env, audit: ServiceAudit) -> int:
    if parsed.watch and parsed.approve:
        raise UsageError("--watch looks on and --approve answers too: choose one of them")
    if bool(parsed.session) == parsed.ci:
        raise UsageError(
            "Which session? bridle token mint --session ID; for the file a job's engine is started with: --ci"
        )
    life_s = _seconds(parsed.life)
    refuse_bad_name(parsed.name or "")
    if not sys.stdin.isatty():
        raise CommandRefused("MintedAtTerminal")
    if parsed.out is None and not (sys.stdout.isatty() or parsed.print):
        raise UsageError(
            "A token is not printed into a pipe by accident. Into a file: --out FILE. If you mean it: --print"
        )
    claims: dict[str, Any] = {"identity_class": parsed.identity_class, "name": (parsed.name or "").strip()}
    if parsed.watch or parsed.approve:
        claims["commands"] = WATCH if parsed.watch else APPROVE
    if not parsed.ci:
        claims["sessions"] = _sessions(parsed.session, env)
    made = tokens.new_claims(life_s=life_s, **claims)
    signed = tokens.issue_provisioned(made) if parsed.ci else tokens.issue(made)
    if parsed.out is not None:
        try:
            write_token_file(parsed.out, signed)
        except UsageError:
            tokens.revoke(made.jti)
            raise
    audit.write("minted", described(made))
    tell(f"{made.jti} holds until {iso_ms(made.exp * 1000)}. Take it back: bridle token revoke {made.jti}")
    if parsed.out is not None:
        return say(f"Written: {visible_line(parsed.out)}\n")
    return say_raw(f"{signed}\n")


def _sessions(names: list[str], env: Env) -> tuple[str, ...]:
    with closing(session_store(sessions_unlocked(env))) as store:
        return tuple(dict.fromkeys(store.find(name).id for name in names))


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})([mhd])", text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError(f'--for "{text}" is no time: 30m, 2h or 7d, and at most 400d')
    return seconds


def _list(register: TokenFile, parsed: Args, clock: SystemClock) -> int:
    issued = register.issued()
    if parsed.json:
        rows = [
            described(one.claims, issued=iso_ms(one.issued_ms), state=_state(one, clock.now_ms(), iso_ms))
            for one in issued
        ]
        return say_json({"tokens": rows})
    if not issued:
        return say("No token was minted. Mint one: bridle token mint --session ID\n")
    ids = short_ids(one.claims.jti for one in issued)
    sessions = short_ids({named for one in issued for named in one.claims.sessions or ()})
    widest = max(map(len, ids.values()))
    rows = [("ID", "FOR", "MAY", "STATE", "SESSIONS")]
    rows += [_row(one, ids[one.claims.jti], sessions, clock.now_ms()) for one in issued]
    lines = (f"{own:<{widest}}  {who:<15}  {may:<10}  {state:<24}  {of}" for own, who, may, state, of in rows)
    return say_lines(cut(line, COLUMNS) for line in lines)


def _row(
    one: IssuedToken, own_id: str, sessions: Mapping[str, str], now_ms: int
) -> tuple[str, str, str, str, str]:
    """The columns of one token: its id and those of sessions as short as they name one."""
    claims = one.claims
    kind = f" ({claims.identity_class})"
    who = cut(claims.name or "-", 15 - len(kind)) + kind
    named = () if claims.sessions is msgspec.UNSET else claims.sessions
    more = f" +{len(named) - 1}" if len(named) > 1 else ""
    of = "all" if claims.sessions is msgspec.UNSET else f"{sessions[named[0]]}{more}" if named else "none"
    return own_id, who, _may(claims.commands), _state(one, now_ms, minute), of


def _may(commands: tuple[str, ...] | msgspec.UnsetType) -> str:
    if commands is msgspec.UNSET:
        return "everything"
    return {WATCH: "watch", APPROVE: "approve"}.get(commands, f"{len(commands)} commands")


def _state(one: IssuedToken, now_ms: int, when: Callable[[int], str]) -> str:
    if one.revoked_ms is not None:
        return f"revoked {when(one.revoked_ms)}"
    until = when(one.claims.exp * 1000)
    return f"expired {until}" if one.claims.exp * 1000 <= now_ms else f"until {until}"


def _meant(text: str, register: TokenFile) -> str:
    """The token whose id begins so, where it is one; else the text, which is then no token's."""
    begins = [
        one.claims.jti
        for one in register.issued()
        if text and one.claims.jti.removeprefix("tok_").startswith(text.removeprefix("tok_"))
    ]
    return begins[0] if len(begins) == 1 else text


def _revoke(tokens: Tokens, jti: str, audit: ServiceAudit) -> int:
    tokens.revoke(jti)
    audit.write("revoked", {"jti": jti})
    return say(f"Revoked: {jti}. Nobody is admitted with it any more.\n")


def _audit(parsed: Args, env: Env, audit: ServiceAudit) -> int:
    rows = list(audit.entries())
    if parsed.session:
        with closing(session_store(sessions_unlocked(env))) as store:
            for name in parsed.session:
                rows += answers_of(store.events(store.find(name).id))
    rows.sort(key=lambda row: str(row.get("ts", "")))
    if parsed.json:
        return say_json({"entries": rows})
    if not rows:
        return say("Nothing was minted, revoked or refused.\n")
    return say_lines(_told(row) for row in rows)


def _told(row: Mapping[str, Any]) -> str:
    rest = ", ".join(
        _fact(name, value)
        for name, value in row.items()
        if name not in ("ts", "what") and value not in (None, "", [])
    )
    return visible_line(f"{row.get('ts', '')}  {row.get('what', ''):<9}  {rest}")


def _fact(name: str, value: Any) -> str:
    match name, value:
        case "jti", _:
            return f"{value}"
        case "exp", int():
            return f"until {minute(value * 1000)}"
        case "commands", list():
            return f"may {_may(msgspec.convert(value, tuple[str, ...]))}"
        case "approvals", list():
            return f"by {' and '.join(approver(one) for one in msgspec.convert(value, list[Approval]))}"
        case _, list():
            return f"{name} {' and '.join(map(str, value))}"  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return f"{name.replace('_', ' ')} {value}"
