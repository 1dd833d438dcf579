"""`bridle permissions`: explain decisions, list and revoke grants."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from bridle.app.queries.explain import Explained, FolderRules, Unexplainable, explain, standing
from bridle.base.clock import SystemClock
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import aligned, say, say_json, say_lines, tell
from bridle.cli.option_values import added_folders, settings_here
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.render.start_info import MODE_WORDS
from bridle.config.folders import folders
from bridle.config.settings_writer import put_rule_first
from bridle.protocol.commands import SessionOptions
from bridle.protocol.errors import BridleError, CommandRefused, UsageError, sentence
from bridle.safety.grants import Grant
from bridle.safety.question_reasons import granted_words
from bridle.safety.rules import COMMAND_TOOLS, Rule, rule_of

_DAY_MS = 24 * 60 * 60 * 1000
_LABEL = 9
_NO_CALL = 'A call is a line like {"tool": "bash", "input": {"command": "npm test"}}'


class _Call(msgspec.Struct, frozen=True):
    tool: str
    input: dict[str, Any] = {}


def permissions(parsed: Args, env: Env) -> int:
    match parsed.action:
        case "explain" if parsed.batch:
            return _explain_lines(parsed, env)
        case "explain":
            return _explain(parsed, env)
        case "revoke":
            return _revoke(parsed, env)
        case "promote":
            return _promote(parsed, env)
        case _:
            return _list(parsed, env)


# What holds


def _list(parsed: Args, env: Env) -> int:
    here = _standing(parsed, env)
    grants = here.saved.of(here.permissions.root)
    now_ms = SystemClock().now_ms()
    if parsed.json:
        answer = {
            "mode": here.mode,
            "rules": [msgspec.to_builtins(rule) for rule in here.permissions.rules],
            "grants": [_grant_data(grant, now_ms) for grant in grants],
            "persist": here.permissions.persists,
        }
        code = say_json(answer)
    else:
        code = say_lines(_listed(here, grants, now_ms))
    if problem := here.saved.problem():
        data = {"path": here.saved.path, "problem": problem}
        tell(visible_line(sentence("GrantsUnreadable", data)))
    return code


def _listed(here: FolderRules, grants: Iterable[Grant], now_ms: int) -> Iterable[str]:
    yield f"{'mode':<{_LABEL}}{here.mode:<11}{MODE_WORDS[here.mode]}"
    rules = here.permissions.rules
    yield from _columns(
        (rule.verdict, visible_line(rule.shown), visible_line(_origin(rule))) for rule in rules
    )
    if not rules:
        yield f"{'rules':<{_LABEL}}none       Like --allow 'bash(npm test*)': [[permissions.rules]] in your settings"
    rows = [(grant.grant_id, _words(grant), f"{_left(grant, now_ms)} left") for grant in grants]
    if not rows:
        yield f"{'saved':<{_LABEL}}nothing    What you answer with `a` is kept here for 7 days"
        return
    yield ""
    yield "Saved for this folder        Take one back: bridle permissions revoke ID   Keep it: promote ID"
    yield from _columns(rows)


def _columns(rows: Iterable[tuple[str, str, str]]) -> Iterable[str]:
    return aligned((f"{first:<{_LABEL - 3}}", second, third) for first, second, third in rows)


def _origin(rule: Rule) -> str:
    return rule.origin or rule.tier


def _words(grant: Grant) -> str:
    words = granted_words(grant.tool, grant.subject or "", grant.match)
    tool = "" if grant.tool in COMMAND_TOOLS else f"{grant.tool} "
    return visible_line(tool + words)


def _left(grant: Grant, now_ms: int) -> str:
    """How long a grant still holds; never nothing, for it does."""
    left_ms = max((grant.expires_ms or now_ms) - now_ms, 0)
    return counted(-(-left_ms // _DAY_MS), "day")


def _grant_data(grant: Grant, now_ms: int) -> dict[str, Any]:
    return {**msgspec.to_builtins(grant), "words": _words(grant), "left": _left(grant, now_ms)}


# What would happen


def _explain(parsed: Args, env: Env) -> int:
    if parsed.tool is None or parsed.input is None:
        raise UsageError("""What call? bridle permissions explain bash '{"command": "npm test"}'""")
    given = _object(parsed.input)
    try:
        found = asyncio.run(explain(_standing(parsed, env), parsed.tool, given))
    except Unexplainable as problem:
        raise UsageError(problem.message) from None
    if parsed.json:
        return say_json(found)
    return say_lines(_told(found))


def _explain_lines(parsed: Args, env: Env) -> int:
    """One answer per line of stdin, in order; a line that is no call gets an error and the others go on."""
    here = _standing(parsed, env)

    async def answers() -> int:
        for line in sys.stdin.buffer:
            if line.strip() and (code := say_json(await _answer(here, line))):
                return code
        return 0

    return asyncio.run(answers())


async def _answer(here: FolderRules, line: bytes) -> object:
    try:
        call = _object(line.decode("utf-8", "replace"))
        asked = msgspec.convert(call, _Call)
        return await explain(here, asked.tool, asked.input)
    except msgspec.ValidationError:
        return {"error": _NO_CALL, "reason": "Usage"}
    except (Unexplainable, UsageError) as problem:
        return {"error": problem.message, "reason": problem.reason}


def _object(text: str) -> dict[str, Any]:
    """A JSON object. Raises `UsageError` for anything else."""
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise UsageError(f'The input is not JSON, like {{"command": "npm test"}}: {problem}') from None
    try:
        return msgspec.convert(value, dict[str, Any])
    except msgspec.ValidationError:
        raise UsageError('The input is not a JSON object, like {"command": "npm test"}') from None


def _told(found: Explained) -> Iterable[str]:
    yield _row(found.verdict, f"step {found.step}: {found.step_name}")
    if found.rule is not None:
        yield _row("by", found.rule + (f"   {found.origin}" if found.origin else ""))
    if found.because:
        yield _row("because", found.because)
    if found.message:
        yield _row("says", found.message)
    if found.evidence is not None:
        evidence = found.evidence
        yield _row("found", f"{evidence.matched or evidence.preview}   ({evidence.source})")
    if found.risk is not None:
        quiet = ", quiet" if found.quiet else ""
        yield _row(
            "risk",
            f"{found.risk}{quiet}" + (f"   class {found.command_class}" if found.command_class else ""),
        )
    for part in found.parts:
        yield _row("part", f"{part.text}   {part.command_class}" + (f"   {part.does}" if part.does else ""))
    for path in found.paths:
        yield _row("path", path)
    for answer in found.answers:
        yield _row("answer", f"{_KEYS[answer.answer]}  {answer.remembers}")
    if found.keys > 1:
        yield _row(
            "people", f"{found.keys} different ones must say yes; no -y, grant, mode, hook or agent counts"
        )
    elif found.for_person:
        yield _row("only you", "no -y, mode or hook says yes to this" + _instead(found.flags))
    elif found.flags:
        yield _row("flag", " ".join(found.flags))
    for limit in found.limits:
        yield _row("limit", limit)
    if found.why:
        yield _row("why", found.why)


def _instead(flags: Iterable[str]) -> str:
    """What a person may say at the start in place of an answer."""
    named = " ".join(flags)
    return f"; for a whole run: {named}" if named else ""


_KEYS = {"once": "y", "pattern": "p", "tool": "t", "always": "a"}


def _row(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{visible_line(text)}".rstrip()


# Taking back, keeping for good


def _revoke(parsed: Args, env: Env) -> int:
    here = _standing(parsed, env)
    root = here.permissions.root
    grants = here.saved.of(root)
    chosen = grants if parsed.grant == "all" else (_found(grants, parsed.grant),)
    for grant in chosen:
        here.saved.revoke(root, grant.grant_id)
    lines = [f"Taken back: {_words(grant)}" for grant in chosen] or ["There was nothing to take back."]
    return say_lines(lines)


def _promote(parsed: Args, env: Env) -> int:
    here = _standing(parsed, env)
    grant = _found(here.saved.of(here.permissions.root), parsed.grant)
    file = put_rule_first(folders(env), settings_here(parsed, env).checked(), rule_of(grant))
    here.saved.revoke(here.permissions.root, grant.grant_id)
    said = f"{_words(grant)} is a rule now, in {visible_line(file)}, and holds in every folder."
    return say(said + "\n")


def _found(grants: Iterable[Grant], name: str) -> Grant:
    """The grant with this id or the only one whose id begins so; the part after `grant_` is enough."""
    listed = list(grants)
    exact = [grant for grant in listed if name in (grant.grant_id, grant.grant_id.removeprefix("grant_"))]
    begun = [
        grant
        for grant in listed
        if name
        and (grant.grant_id.startswith(name) or grant.grant_id.removeprefix("grant_").startswith(name))
    ]
    if len(exact or begun) != 1:
        raise CommandRefused("UnknownGrant", grant=name)
    return (exact or begun)[0]


def _standing(parsed: Args, env: Env) -> FolderRules:
    options = SessionOptions(
        allow_policy_changes=getattr(parsed, "allow_policy_changes", False),
        allow_unsandboxed=getattr(parsed, "allow_unsandboxed", False),
        allow=tuple(getattr(parsed, "allow", ())),
        deny=tuple(getattr(parsed, "deny", ())),
        add_dirs=added_folders(getattr(parsed, "add_dir", ())),
        config_file=getattr(parsed, "config", None),
        sets=tuple(getattr(parsed, "set", ())),
    )
    try:
        return standing(
            env,
            cwd=os.getcwd(),
            options=options,
            profile=getattr(parsed, "profile", None),
            mode=getattr(parsed, "mode", None),
        )
    except OSError as problem:
        raise BridleError("FileUnreadable", path=problem.filename or "", problem=problem.strerror) from None
