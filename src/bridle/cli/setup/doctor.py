"""`bridle doctor`: check every part of the installation.

Nothing is changed and nothing is paid for: of a provider only its list of models is asked, and only of the chosen one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing, contextmanager

from bridle._version import __version__
from bridle.app.records.operational_log import log_folder
from bridle.app.session_past import VERIFIED_ON_RESUME
from bridle.app.sources.settings_use import all_problems
from bridle.app.user.forwarders import Forwarders
from bridle.app.user.setting_sections import load
from bridle.app.user.stored_keys import StoredKeys, session_store
from bridle.base.clock import SystemClock
from bridle.base.process.processes import Processes
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.cli.accounts.login import credentials_row, log_lock_row
from bridle.cli.accounts.models import ModelDesk, keys_here
from bridle.cli.console import aligned, say_json, say_lines
from bridle.cli.option_values import settings_here
from bridle.cli.policy.sandbox import sandbox_row
from bridle.cli.setup.doctor_parts import (
    DoctorRow,
    Finding,
    Machine,
    disk_rows,
    engine_rows,
    extra_rows,
    git_rows,
    hook_rows,
    provider_rows,
    token_rows,
)
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders
from bridle.config.settings_writer import user_file
from bridle.config.tiers import Tiers
from bridle.credentials.credential_settings import CredentialSettings
from bridle.plugin.loading import load_plugins
from bridle.protocol.errors import BridleError
from bridle.protocol.events import ModelChanged
from bridle.sessions.log.log_reader import tips_gone

EXIT_PROBLEM = 1
PART_S = 20.0
"""So long one part may take; then that is what was found out about it."""
_UNENCRYPTED = b"SQLite format 3\x00"


class TooLong(Exception):
    """A check took longer than `PART_S`."""


def doctor(parsed: Args, env: Env) -> int:
    found = Machine(env, folders(env), _settings(parsed, env), parsed)
    rows: list[DoctorRow] = []
    for part, check in CHECKS.items():
        rows += _checked(part, check, found)
    failures = sum(row.status == "fail" for row in rows)
    warnings = sum(row.status == "warn" for row in rows)
    code = EXIT_PROBLEM if failures else 0
    if parsed.json:
        paths = _paths(found)
        answer = {
            "ok": not failures,
            "problems": failures,
            "warnings": warnings,
            "rows": rows,
            "paths": paths,
        }
        return say_json(answer) or code
    lines = aligned(((f"{row.status:<4}", row.part, row.text) for row in rows), gap="  ")
    summary = f"{counted(failures, 'problem')}, {counted(warnings, 'warning')}."
    lines += ["", "   ".join((summary, *_path_words(found)))]
    return say_lines(lines) or code


def _settings(parsed: Args, env: Env) -> Tiers:
    """The settings as far as they can be read; where there is no folder, those that hold in every folder."""
    try:
        return settings_here(parsed, env)
    except BridleError:
        return load(where=folders(env), cwd="/", env=env)


def _checked(part: str, check: Callable[[Machine], Iterable[Finding]], found: Machine) -> list[DoctorRow]:
    """The rows of one part. What goes wrong inside a check is what it found."""
    try:
        with bounded(PART_S):
            rows: list[Finding] = list(check(found))
    except TooLong:
        rows = [("fail", f"the check did not come to an end within {PART_S:g} s")]
    except BridleError as failure:
        rows = [("fail", failure.message)]
    except OSError as problem:
        rows = [("fail", f"{problem.filename or part}: {problem.strerror}")]
    except Exception as fault:  # noqa: BLE001  a fault of ours must not hide what the other checks find
        rows = [("fail", f"the check itself failed ({type(fault).__name__}: {fault})")]
    return [DoctorRow(status, part, _one_line(text)) for status, text in rows]


@contextmanager
def bounded(seconds: float) -> Generator[None]:
    """Ends what takes longer, wherever it waits; again and again, for what does not want to hear it."""

    def end(_number: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _one_line(text: str) -> str:
    return visible_line(" ".join(text.split()))


def _bridle(_found: Machine) -> Iterable[Finding]:
    version, system = sys.version_info, os.uname()
    yield (
        "ok",
        f"{__version__}, Python {version.major}.{version.minor}.{version.micro}, {system.sysname} {system.machine}",
    )


def _model(found: Machine) -> Iterable[Finding]:
    return [asyncio.run(_model_row(found))]


async def _model_row(found: Machine) -> Finding:
    desk = ModelDesk(found.tiers, found.env)
    try:
        await desk.read_project_keys()
        name, origin = found.tiers.get("model"), found.tiers.origin("model")
        if name and origin:
            chosen, source = desk.known.choose(name), origin.shown
        elif found.offline:
            return ("skip", "none is configured; not looked for (--offline)")
        else:
            chosen, source = await desk.models.default(), "found"
        return await _asked(desk, chosen, source, found)
    except BridleError as failure:
        text = failure.message
        if failure.reason == "NoModel":
            text = "no model is configured and {keys}. Next: {next}".format_map(failure.data)
        return ("fail", text)
    finally:
        await desk.close()


async def _asked(desk: ModelDesk, chosen: ModelChanged, source: str, found: Machine) -> Finding:
    """What the provider of the chosen model says to a request for its list."""
    name = f"{chosen.provider}:{chosen.model} ({source})"
    endpoint = desk.endpoint(chosen.provider)
    if endpoint is None:
        return ("ok", f"{name}, a script: no key, no network")
    key = desk.key_from(endpoint)
    key_words = f", key from {key}" if key else ", no key needed" if not endpoint.needs_key else ""
    if found.offline:
        return ("skip", f"{name}{key_words}, not asked (--offline)")
    clock = SystemClock()
    begun = clock.monotonic()
    listed = [model.name for model in await desk.models.chat(chosen.provider).models()]
    took = f"lists {counted(len(listed), 'model')} in {clock.monotonic() - begun:.1f} s{key_words}"
    if chosen.model not in listed:
        return ("warn", f"{name} is not among its provider's models; {chosen.provider} {took}")
    return ("ok", f"{name}, {took}")


def _store(found: Machine) -> Iterable[Finding]:
    path = os.path.join(found.where.data, "sessions.db")
    if not os.path.lexists(path):
        return [_empty_store(found.where.data)]
    locked, lock_words = log_lock_row(_stored_keys(found), found.where, found.env)
    if locked:
        return [("warn", lock_words)]
    with closing(session_store(found.env)) as store:
        sessions = store.list()
        if sessions:  # the check that a resume makes; raises where something is not as it was written
            store.verify(sessions[0].id, last=VERIFIED_ON_RESUME)
        integrity = "integrity of the newest session good" if sessions else "no session to verify"
        without_tip = store.without_tip()
    with open(path, "rb") as file:
        if file.read(len(_UNENCRYPTED)) == _UNENCRYPTED:
            return [("fail", f"{path} is not encrypted")]
    size = sum(os.path.getsize(name) for name in (path, path + "-wal") if os.path.exists(name))
    _, lock_words = log_lock_row(
        _stored_keys(found), found.where, found.env
    )  # opening may have wrapped its key
    text = f"{counted(len(sessions), 'session')}, {size / 1e6:.1f} MB, encrypted, {integrity}"
    if not os.access(path, os.W_OK):
        return [("fail", f"{text}, but {path} is not yours to write: nothing new can be kept")]
    if without_tip:
        return [("warn", tips_gone(found.where.data, without_tip))]
    if lock_words:
        return [("warn", f"{text}; {lock_words}")]
    return [("ok", text)]


def _empty_store(folder: str) -> Finding:
    """Nothing is stored; can it be? Nothing is made to find out."""
    nearest = folder
    while not os.path.lexists(nearest) and nearest != os.path.dirname(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        return ("fail", f"{folder} cannot be made: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        return ("fail", f"{folder} cannot be made: {nearest} is not yours to write")
    if os.statvfs(nearest).f_bavail == 0:
        return ("fail", f"{folder} cannot be made: no space left in {nearest}")
    return ("skip", "nothing is stored yet")


def _keys(found: Machine) -> Iterable[Finding]:
    stored = _stored_keys(found)
    return [credentials_row(stored, found.where, found.env)]


def _secrets(found: Machine) -> Iterable[Finding]:
    """What comes of the secrets file of the project here, where there is one."""
    here = asyncio.run(keys_here(found.env, os.getcwd()))
    if here is None:
        return []
    _, keys = here
    return [("warn" if keys.problem else "ok", keys.notice().message.rstrip("."))]


def _stored_keys(found: Machine) -> StoredKeys:
    back_end = found.tiers.section("credentials", CredentialSettings).store
    return StoredKeys(where=found.where, env=found.env, clock=SystemClock(), back_end=back_end)


def _helper(found: Machine) -> Iterable[Finding]:
    """Whether a process of its own holds the keys, and whether it can. Nothing is sent anywhere."""
    use = found.tiers.section("credentials", CredentialSettings).helper
    if use == "never":
        return [("skip", "never: Bridle itself sends keys with its requests")]
    if use == "serve":
        return [("skip", "only for an engine that others can reach, which this is not")]
    return [asyncio.run(_helper_row(found))]


async def _helper_row(found: Machine) -> Finding:
    stored = _stored_keys(found)
    processes = Processes()
    forwarders = Forwarders(processes, where=found.where, env=found.env, clock=SystemClock())
    try:
        names = await forwarders.names(stored)
    finally:
        await forwarders.close()
        await processes.close()
    if stored.is_empty:
        return ("ok", "always: a process of its own will hold stored keys; none are stored")
    return ("ok", f"always: a process of its own holds the keys of {counted(len(names), 'provider')}")


def _sandbox(found: Machine) -> Iterable[Finding]:
    return [sandbox_row(found.tiers, found.env)]


def _config(found: Machine) -> Iterable[Finding]:
    problems = all_problems(found.tiers)
    if not problems:
        read = [found.at_home(path) for path in _settings_files(found)]
        return [("ok", ", ".join(read) or "no settings file; the defaults hold")]
    return [("fail" if problem.severity == "error" else "warn", problem.text) for problem in problems]


def _plugins(found: Machine) -> Iterable[Finding]:
    """What each plugin adds. One that cannot be used is a fault of the settings that list it."""
    if not found.tiers.get("plugins.enabled"):
        return
    try:
        loaded = load_plugins(found.tiers)
    except BridleError:
        return
    for plugin in loaded:
        yield ("ok", f"{plugin.name} {plugin.version}: {plugin.adds()}")


def _terminal(found: Machine) -> Iterable[Finding]:
    if not sys.stdout.isatty():
        return [("skip", "the output does not go to one")]
    encoding = (sys.stdout.encoding or "ascii").lower()
    size = os.get_terminal_size(sys.stdout.fileno())
    width = f"{size.columns} columns" if size.columns else "of unknown width"
    text = f"{_colours(found.env)}, {width}, {encoding.upper()}"
    if encoding.replace("-", "") != "utf8":
        return [("warn", f"{text}: characters it does not have are shown as their codes")]
    return [("ok", text)]


def _colours(env: Env) -> str:
    term = env.get("TERM", "")
    if env.get("NO_COLOR"):
        return "no colours (NO_COLOR)"
    if term in {"", "dumb"}:
        return f"no colours (TERM={term})"
    if env.get("COLORTERM") in {"truecolor", "24bit"}:
        return "all colours"
    return "256 colours" if "256" in term else "16 colours"


CHECKS: Mapping[str, Callable[[Machine], Iterable[Finding]]] = {
    "bridle": _bridle,
    "model": _model,
    "provider": provider_rows,
    "store": _store,
    "keys": _keys,
    "helper": _helper,
    "secrets": _secrets,
    "engine": engine_rows,
    "tokens": token_rows,
    "sandbox": _sandbox,
    "config": _config,
    "plugin": _plugins,
    "hooks": hook_rows,
    "git": git_rows,
    "disk": disk_rows,
    "extras": extra_rows,
    "terminal": _terminal,
}
"""Every part that is looked at, in the order of the screen."""


def _paths(found: Machine) -> dict[str, str | list[str]]:
    where = found.where
    return {
        "config": where.config,
        "data": where.data,
        "state": where.state,
        "user_file": user_file(where),
        "settings_files": _settings_files(found),
        "sessions": os.path.join(where.data, "sessions.db"),
        "key": os.path.join(where.data, "sessions.key"),
        "log": log_folder(where.state),
    }


def _settings_files(found: Machine) -> list[str]:
    return [source.path for source in found.tiers.sources if source.path]


def _path_words(found: Machine) -> list[str]:
    where = found.where
    named = (
        ("config", where.config),
        ("data", where.data),
        ("state", where.state),
        ("log", log_folder(where.state)),
    )
    return [f"{name} {_one_line(found.at_home(path))}" for name, path in named]
