"""`bridle trust`: review and approve files of a project.

Only a person at a terminal agrees to anything, and only after all of it was shown. For a place without one, a lock file
is written here and named there.
"""

from __future__ import annotations

import os
import sys
import termios
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from bridle.agents.agent_settings import AgentFolders
from bridle.app.project_trust import config_items, named_settings_item, project_items
from bridle.app.sources.agent_sources import agent_items
from bridle.app.user.settings import is_acked
from bridle.base.clock import SystemClock
from bridle.base.fs.files import repository_root, write_atomic
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.cli.console import say, say_json, say_lines, tell, terminal_columns
from bridle.cli.option_values import settings_here
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.cells import wrapped
from bridle.clients.interaction.questions.trust_form import trust_lines, trust_words
from bridle.config.folders import folders
from bridle.config.tiers import Tiers
from bridle.mcp.server_pins import PinStore, ServerPins
from bridle.protocol.errors import BridleError, CommandRefused, UsageError
from bridle.protocol.questions import TrustQuestion
from bridle.safety.trust.approvals import Approval, Approvals, encode, read_lockfile, session_approvals
from bridle.safety.trust.trust_items import State, TrustItem

EXIT_DRIFT: Final = 3
GLIMPSE: Final = 10
KEYS: Final = "u use it · n not now · v read all · Enter not now › "

Ask = Callable[[str], str]
"""Shows a prompt and returns the line that was typed; raises EOFError when there will be none."""


def trust(parsed: Args, env: Env) -> int:
    approvals = stored_approvals(env)
    cwd = os.path.realpath(".")
    unsafe = approvals.problem()
    if unsafe is not None and parsed.action == "verify" and parsed.lockfile is None:
        raise unsafe
    if unsafe is not None and parsed.action != "revoke":
        tell(visible_line(unsafe.message))
    match parsed.action:
        case "ack":
            return _ack(parsed, approvals, _items(approvals, cwd, env), env)
        case "verify":
            return _verify(parsed, approvals, cwd, env)
        case "diff":
            return _diff(_named(_items(approvals, cwd, env), parsed.path, cwd), approvals)
        case "revoke":
            return _revoke(parsed.what, approvals, _pins(env), cwd)
        case _:
            pinned = _pinned(_pins(env), cwd, everywhere=parsed.all)
            items = _items(approvals, cwd, env)
            return _list(items, approvals, pinned, everywhere=parsed.all, as_json=parsed.json)


def stored_approvals(env: Env) -> Approvals:
    where = folders(env)
    return Approvals(where.config, copies=os.path.join(where.state, "approved"))


def _pins(env: Env) -> PinStore:
    return PinStore(folders(env).state, SystemClock())


def review_settings(parsed: Args, env: Env) -> None:
    """Before a conversation begins: asks about settings of the project that wait for the person, once per content.

    Then says what of the settings does not count. Mistakes are left to whoever uses the settings.
    """
    approvals = stored_approvals(env)

    def settings() -> Tiers:
        return settings_here(
            parsed,
            env,
            cwd=os.path.realpath(parsed.cwd or "."),
            is_acked=is_acked(approvals),
            allow_project_hooks=parsed.allow_project_hooks,
            add_dirs=parsed.add_dir,
        )

    _review_all(config_items(settings().waiting), approvals)
    _review_all(_chosen_agent_items(settings(), parsed, approvals, env), approvals)
    for problem in settings().warnings:
        say(visible_line(problem.text) + "\n")


def review_named(path: str, env: Env) -> bool:
    """Asks about a file that was named as settings; whether the person agreed to what it says now."""
    approvals, item = stored_approvals(env), named_settings_item(path)
    return item is not None and _review_all((item,), approvals) == 1


def _chosen_agent_items(tiers: Tiers, parsed: Args, approvals: Approvals, env: Env) -> list[TrustItem]:
    """The file of the project that is the agent to talk with, while nobody agreed to it."""
    wanted = parsed.agent or tiers.get("agent")
    if not wanted:
        return []
    listed = tiers.section("agents", AgentFolders).folders
    items = agent_items(listed, where=folders(env), cwd=os.path.realpath(parsed.cwd or "."), env=env)
    return [
        item
        for item in items
        if os.path.basename(item.path) == f"{wanted}.md" and not item.is_trusted(approvals)
    ]


def _items(approvals: Approvals, cwd: str, env: Env) -> tuple[TrustItem, ...]:
    return project_items(approvals, where=folders(env), cwd=cwd, env=env)


# Agreeing


def _ack(parsed: Args, approvals: Approvals, items: tuple[TrustItem, ...], env: Env) -> int:
    cwd = os.path.realpath(".")
    wanted = [_named(items, path, cwd) for path in parsed.path] or items
    pending = [item for item in wanted if not item.is_trusted(approvals)]
    if pending and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandRefused("NonInteractiveAckRefused", kind=_kind(pending[0]))
    agreed = _review_all(pending, approvals)
    if agreed and not parsed.path:  # settings that count now may bring programs along
        seen = {item.digest for item in pending}
        more = [item for item in _items(approvals, cwd, env) if item.digest not in seen]
        _review_all([item for item in more if not item.is_trusted(approvals)], approvals)
    if not pending:
        say(
            "Nothing waits: everything this project wants is trusted.\n"
            if wanted
            else "Nothing here wants trust.\n"
        )
    if parsed.emit_lockfile is not None:
        return _emit(parsed.emit_lockfile, approvals, _items(approvals, cwd, env))
    return 0


def _review_all(items: Sequence[TrustItem], approvals: Approvals) -> int:
    """One after the other, never several at once; returns how many the person agreed to."""
    agreed = 0
    for number, item in enumerate(items, 1):
        if len(items) > 1:
            say(f"{number} of {len(items)}\n")
        try:
            if review(item.question(approvals, SystemClock().now_ms()), typed_line):
                item.approve(approvals)
                agreed += 1
        except EOFError:
            say("\n")
            break
    return agreed


def review(question: TrustQuestion, ask: Ask) -> bool:
    """Shows a question and takes the answer. Enter says not now; a yes counts only after all of it was shown."""
    words = trust_words(question)
    return review_lines(words.title, trust_lines(question), words.warnings, ask)


def review_lines(title: str, body: Sequence[str], odd: Sequence[str], ask: Ask) -> bool:
    """The same for anything that people agree to by lines of text."""
    complete = len(body) <= GLIMPSE
    more = () if complete else (f"    …  (v to read all {len(body)})",)
    columns = terminal_columns()
    say("\n".join((*wrapped(title, columns), *body[:GLIMPSE], *more, *odd)) + "\n")
    while True:
        match ask(KEYS).strip().lower():
            case "u" if complete:
                return True
            case "u":
                say("u works when all of it was shown: v\n")
            case "v":
                say("\n".join((*body, *odd)) + "\n")
                complete = True
            case "" | "n":
                return False
            case _:
                say("The answers are u n v. Nothing was answered.\n")


def typed_line(prompt: str) -> str:
    """A line typed after the question was shown: what was typed before was not meant for it."""
    sys.stdout.flush()
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    say(prompt)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def _emit(path: str, approvals: Approvals, items: Sequence[TrustItem]) -> int:
    """Writes what is trusted here and now, without the folder it happens to be in."""
    entries: list[Approval] = []
    for item in items:
        last = approvals.last(kind=item.kind, root=item.root, path=item.path)
        if item.is_trusted(approvals) and not item.private:
            when_ms = last.approved_ms if last is not None else SystemClock().now_ms()
            entries.append(
                Approval(
                    kind=item.kind, digest=item.digest, path=item.path, approved_ms=when_ms // 1000 * 1000
                )
            )
    try:
        write_atomic(os.path.abspath(path), encode(entries), mode=0o644)
    except OSError as problem:
        raise BridleError("TrustUnwritable", path=path, problem=problem.strerror) from None
    count = counted(len(entries), "approval")
    name = visible_line(path)
    return say(
        f"Wrote {name}: {count}. Name it where nobody can be asked: bridle run --lockfile {name} …\n"
        "Whoever can change that file decides what is used: take it from a place you control.\n"
    )


# Looking


TrustRow: TypeAlias = tuple[str, str, str, str, str]


def _pinned(pins: PinStore, cwd: str, *, everywhere: bool) -> list[TrustRow]:
    """The MCP servers whose launch or tools are pinned for this folder, or for any."""
    here = ("", os.path.realpath(repository_root(cwd)))
    return [
        ("pinned", "mcp_server", _pin_name(one), _day(max(one.launch_ms, one.tools_ms)), place[:12])
        for place, one in pins.everything()
        if everywhere or one.folder in here
    ]


def _pin_name(pins: ServerPins) -> str:
    return f"MCP server {pins.name}" + (f" in {pins.folder}" if pins.folder else "")


def _list(
    items: Sequence[TrustItem],
    approvals: Approvals,
    pinned: Sequence[TrustRow],
    *,
    everywhere: bool,
    as_json: bool,
) -> int:
    lock = approvals.read()
    rows: list[TrustRow] = []
    for item in items:
        last = approvals.last(kind=item.kind, root=item.root, path=item.path)
        when = _day(last.approved_ms) if last is not None else ""
        rows.append((item.state(approvals), item.kind, item.shown, when, item.digest[:12]))
    if everywhere:
        here = {(item.kind, item.digest) for item in items}
        rows += [
            ("stored", entry.kind, os.path.join(entry.root, entry.path), _day(entry.approved_ms), entry.id)
            for entry in lock.entries
            if (entry.kind, entry.digest) not in here
        ]
    rows += pinned
    if as_json:
        names = ("state", "kind", "path", "approved", "id")
        return say_json([dict(zip(names, row, strict=True)) for row in rows])
    path = visible_line(approvals.path)
    for number, _line in lock.unread:
        tell(f"{path} line {number} cannot be understood and counts for nothing")
    if lock.foreign:
        tell(f"{path} is no lock file of this version; nothing in it counts")
    lines = [f"{a:<8} {b:<13} {visible_line(c):<32} {d:<10} {e}" for a, b, c, d, e in rows]
    return say_lines(lines or ["Nothing here wants trust."])


def _verify(parsed: Args, approvals: Approvals, cwd: str, env: Env) -> int:
    """Whether everything this project wants is approved: by the person, or by the lock file that is named alone."""
    if parsed.lockfile is not None:
        named = read_lockfile(parsed.lockfile).entries
        approvals = Approvals(os.devnull, named=named)  # no folder, so none of the person's own
    else:
        approvals = session_approvals(approvals, lockfile=None, env=env, cwd=cwd)
        named = ()
    drifted: list[tuple[State, str]] = []
    for item in _items(approvals, cwd, env):
        if not item.is_trusted(approvals) and not (item.private and parsed.lockfile is not None):
            known = any((entry.kind, entry.path) == (item.kind, item.path) for entry in named)
            state: State = "changed" if known else item.state(approvals)
            drifted.append((state, item.shown))
    if not drifted:
        return say("Everything this project wants is trusted.\n")
    lines = [f"{state:<8} {visible_line(path)}" for state, path in drifted]
    return say_lines(lines) or EXIT_DRIFT


def _diff(item: TrustItem, approvals: Approvals) -> int:
    if item.is_trusted(approvals):
        return say(f"{visible_line(item.shown)} is as you trusted it.\n")
    question = item.question(approvals, SystemClock().now_ms())
    words = trust_words(question)
    return say("\n".join((words.title, *trust_lines(question), *words.warnings)) + "\n")


def _revoke(what: str, approvals: Approvals, pins: PinStore, cwd: str) -> int:
    path = os.path.join(cwd, what)

    def matches(entry: Approval) -> bool:
        by_id = len(what) >= 8 and entry.digest.startswith(what.lower())
        return what == "all" or by_id or os.path.join(entry.root, entry.path) == path or entry.path == what

    gone = approvals.revoke(matches)
    unpinned = [
        (place, one)
        for place, one in pins.everything()
        if what == "all"
        or (len(what) >= 8 and place.startswith(what.lower()))
        or what in (_pin_name(one), f"mcp_servers.{one.name}")
    ]
    try:
        for place, _one in unpinned:
            pins.forget(place)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise BridleError("TrustUnwritable", path=problem.filename or "the pins", problem=why) from None
    if not gone and not unpinned:
        raise UsageError(f'Nothing trusted fits "{what}". See: bridle trust list --all')
    lines = [f"revoked  {entry.kind:<13} {visible_line(entry.path):<32} {entry.id}" for entry in gone]
    lines += [
        f"revoked  {'mcp_server':<13} {visible_line(_pin_name(one)):<32} {place[:12]}"
        for place, one in unpinned
    ]
    return say_lines(lines)


def _named(items: Sequence[TrustItem], path: str, cwd: str) -> TrustItem:
    """The item somebody names by its path, from where they are, or by the setting that wants it."""
    for item in items:
        if path in (item.shown, item.path) or os.path.join(cwd, path) == os.path.join(item.root, item.path):
            return item
    if (settings := named_settings_item(os.path.join(cwd, path))) is not None:
        return settings
    raise UsageError(f'"{path}" is nothing here that wants trust. See: bridle trust list')


def _kind(item: TrustItem) -> str:
    words = {"config": "settings file", "settings": "settings file", "instructions": "instruction file"}
    return f"{words.get(item.kind, item.kind.replace('_', ' '))} {visible_line(item.shown)}"


def _day(ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(ms / 1000))
