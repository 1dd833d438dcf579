"""Checks of `bridle doctor`: engine, tokens, hooks, git, disk, extras.

Each check is a function of what is known of this machine. It changes nothing and pays for nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from bridle._version import __version__
from bridle.app.records.trace_export import endpoint_wanted
from bridle.base.clock import SystemClock
from bridle.base.git.git_calls import clean_environment, program_on
from bridle.base.net.engine_place import EnginePlace
from bridle.base.process.installation import install_command
from bridle.base.process.user_programs import read_output
from bridle.base.text.phrases import counted
from bridle.base.text.terminal_text import visible_line
from bridle.cli.accounts.models import ModelDesk
from bridle.cli.engine_attach import connect_to_engine
from bridle.cli.policy.hooks import folder_hooks
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.interaction.render.start_info import folder_words
from bridle.config.folders import Folders
from bridle.config.tiers import Tiers
from bridle.control.token_files import TokenFile
from bridle.protocol.errors import BridleError
from bridle.protocol.queries import CheckHealth, PartHealth

PartStatus: TypeAlias = Literal["ok", "warn", "fail", "skip"]
ENGINE_S = 5.0
GIT_S = 5.0
LITTLE_ROOM = 1_000_000_000
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "web": ("starlette", "uvicorn", "httptools", "websockets"),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "keyring": ("keyring",),
    "images": ("PIL",),
    "mcp": ("mcp",),
    "acp": ("acp",),
    "tui": ("textual",),
    "map": ("tree_sitter_python", "tree_sitter_javascript", "tree_sitter_rust"),
}
"""Each extra and the modules that it brings."""


class DoctorRow(msgspec.Struct, frozen=True):
    """What was found out about one part, in one line."""

    status: PartStatus
    part: str
    text: str


Finding: TypeAlias = tuple[PartStatus, str]
"""What one check found out: how the part stands, and one line about it."""


class Machine(NamedTuple):
    """What several checks look at."""

    env: Env
    where: Folders
    tiers: Tiers
    parsed: Args

    @property
    def offline(self) -> bool:
        return self.parsed.offline

    def at_home(self, path: str) -> str:
        """A path as people write it: `~` for their home."""
        return folder_words(path, self.env.get("HOME", ""))


# An engine that listens


def engine_rows(machine: Machine) -> Iterable[Finding]:
    place = EnginePlace(machine.where.runtime)
    if place.found() is None:
        yield ("skip", "none running, which is normal")
        return
    for path in (place.folder, place.socket, place.token_file):
        if stat.S_IMODE(os.lstat(path).st_mode) & 0o077:
            yield ("fail", f"{path} is open to others; end the engine and start it again")
    yield asyncio.run(_engine_row(machine.env))


async def _engine_row(env: Env) -> Finding:
    try:
        async with asyncio.timeout(ENGINE_S):
            connection = await connect_to_engine(env, name="doctor", answers=False)
            if connection is None:
                return ("warn", "none answers; what one left is taken over by the next")
            try:
                health = await connection.ask(CheckHealth())
            finally:
                await connection.close()
    except TimeoutError:
        return ("fail", f"it did not answer within {ENGINE_S:g} s")
    text = f"{health.version}, {counted(health.open_sessions, 'open session')}"
    if bad := [one for one in health.parts if one.status == "fail"]:
        return ("fail", f"{text}; {_parts_words(bad)}")
    if health.version != __version__:
        return ("warn", f"{text}: another version than this, {__version__}. Start it again")
    if down := [one for one in health.parts if one.status == "warn" and one.part.startswith("mcp ")]:
        return ("warn", f"{text}; {_parts_words(down)}")
    return ("ok", text)


def _parts_words(parts: Iterable[PartHealth]) -> str:
    return visible_line(", ".join(f"{one.part}: {one.text}" for one in parts))


def token_rows(machine: Machine) -> Iterable[Finding]:
    """What was minted; a register that cannot be used lets nobody in."""
    if not os.path.lexists(os.path.join(machine.where.state, "tokens.json")):
        return
    clock = SystemClock()
    issued = TokenFile(machine.where.state, clock).issued()
    now_s = clock.now_ms() / 1000
    revoked = sum(one.revoked_ms is not None for one in issued)
    good = sum(one.revoked_ms is None and one.claims.exp > now_s for one in issued)
    expired = len(issued) - revoked - good
    text = f"{counted(good, 'token')} good, {revoked} revoked, {expired} expired"
    yield ("ok", text)


# Programs around a session


def hook_rows(machine: Machine) -> Iterable[Finding]:
    found = folder_hooks(machine.parsed, machine.env).found
    if found.hooks:
        yield ("ok", f"{counted(len(found.hooks), 'hook')}: bridle hooks")
    for ignored in found.ignored:
        yield ("warn", f"{ignored.where} does not count: {ignored.why}")


def git_rows(machine: Machine) -> Iterable[Finding]:
    program = program_on(machine.env.get("PATH", ""), "git", outside=os.getcwd())
    if program is None:
        return [("warn", "not installed: undo of a repository, /diff git and /commit need it")]
    argv, env = (program, "--version"), clean_environment(machine.env)
    code, said = asyncio.run(read_output(argv, env=env, timeout_s=GIT_S, max_bytes=1000))
    if code or not said:
        return [("fail", f"{program} does not say its version (exit {code})")]
    return [("ok", said.decode(errors="replace").removeprefix("git version "))]


# The machine


def disk_rows(machine: Machine) -> Iterable[Finding]:
    """Room where Bridle writes, once for each file system."""
    seen: set[int] = set()
    for folder in (machine.where.data, machine.where.state):
        there = _nearest(folder)
        device = os.stat(there).st_dev
        if device in seen:
            continue
        seen.add(device)
        disk = os.statvfs(there)
        room = disk.f_bavail * disk.f_frsize
        text = f"{room / 1e9:.1f} GB free for {folder_words(folder, machine.env.get('HOME', ''))}"
        status: PartStatus = "ok" if room >= LITTLE_ROOM else "warn" if room else "fail"
        yield (status, text)


def _nearest(folder: str) -> str:
    """The folder, or the nearest one above it that is there."""
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def extra_rows(machine: Machine) -> Iterable[Finding]:
    """What is installed beside the core, and what the settings want that is not."""
    there = [name for name, modules in EXTRAS.items() if all(map(_is_there, modules))]
    listed = ", ".join(there) or "none"
    absent = ", ".join(name for name in EXTRAS if name not in there)
    yield ("ok", f"{listed} installed" + (f"; not {absent}" if absent else ""))
    for extra, why in _wanted_extras(machine):
        if extra not in there:
            yield ("warn", f"{why} needs a package more: {install_command(extra)}")


def _wanted_extras(machine: Machine) -> Iterator[tuple[str, str]]:
    tiers = machine.tiers
    for key in ("engine.share", "engine.listen"):
        if tiers.get(key):
            yield "web", key
    if endpoint_wanted(tiers.get("otel.endpoint"), machine.env) is not None:
        yield "otel", "tracing with OpenTelemetry"
    if tiers.get("context.repo_map") == "tail":
        yield "map", "context.repo_map"


def _is_there(module: str) -> bool:
    """Whether a module could be imported. Nothing is."""
    top, *below = module.split(".")
    spec = find_spec(top)
    if spec is None or not below:
        return spec is not None
    return any(os.path.isdir(os.path.join(one, *below)) for one in spec.submodule_search_locations or ())


def provider_rows(machine: Machine) -> Iterable[Finding]:
    """The providers that somebody has set up, as far as that can be seen from here. Nobody is asked."""
    desk = ModelDesk(machine.tiers, machine.env)
    try:
        with_keys = {endpoint.name for endpoint in desk.models.with_keys()}
        for name in dict.fromkeys((*desk.models.configured, *sorted(with_keys))):
            endpoint = desk.endpoint(name)
            if endpoint is None or (endpoint.needs_key and desk.key_from(endpoint) is None):
                yield ("warn", f"{name}: {desk.provider_row(name, {}).note}")
            else:
                source = desk.key_from(endpoint)
                yield ("ok", f"{name}: " + (f"key from {source}" if source else "no key"))
    except BridleError as failure:
        yield ("fail", failure.message)
    finally:
        asyncio.run(desk.close())
