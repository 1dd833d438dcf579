"""`bridle models`: providers, their state and their models.

Without a name only this machine is asked. A provider's own list is fetched when it is named, and kept for a day.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from bridle.app.sources.plugins import provider_sections
from bridle.app.user.secrets_file import keys_of_project
from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.base.fs.files import repository_root
from bridle.base.fs.paths import has_secrets_file
from bridle.base.process.processes import Processes
from bridle.base.text.phrases import counted, window_words
from bridle.base.text.terminal_text import visible, visible_line
from bridle.cli.console import aligned, say_json, say_lines, tell
from bridle.cli.option_values import settings_here
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders, home_of
from bridle.config.tiers import Tiers
from bridle.credentials.credential_settings import CredentialSettings
from bridle.credentials.project_secrets import ProjectKeys
from bridle.protocol.errors import BridleError, CredentialError, UsageError
from bridle.protocol.events import ModelChanged
from bridle.providers import DEMO
from bridle.providers.endpoints import Endpoint
from bridle.providers.known_models import KnownModels, Listed, shared_catalogue
from bridle.providers.local_servers import LocalServer, find_local_servers
from bridle.providers.model_directory import Models
from bridle.providers.model_listing import ModelInfo
from bridle.providers.presets import preset
from bridle.providers.script import shipped_scripts
from bridle.safety.trust.approvals import Approvals, session_approvals
from bridle.sandbox.session_border import machine_spawn


async def keys_here(env: Env, cwd: str) -> tuple[str, ProjectKeys] | None:
    """The project around a folder, and what its secrets file gives; None where it has none."""
    root = repository_root(cwd)
    if not has_secrets_file(root):
        return None
    where = folders(env)
    approvals = session_approvals(Approvals(where.config), lockfile=None, env=env, cwd=cwd)
    processes = Processes()
    try:
        spawn = machine_spawn(processes, where=where, home=home_of(env), env=env)
        return root, await keys_of_project(root, approvals, spawn, env)
    finally:
        await processes.close()


USABLE = "✓"
DEFAULT = "*"


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that may hold a key. Of the key itself only whether it is there."""

    variable: str
    providers: tuple[str, ...]
    present: bool


class ProviderRow(msgspec.Struct, frozen=True, kw_only=True):
    """A provider and whether it can be used now; `note` says why, or why not."""

    name: str
    title: str
    usable: bool
    note: str
    address: str = ""
    key_variable: str | None = None
    local: bool = False


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model under the name that `-m` takes."""

    model: str
    default: bool
    info: ModelInfo


class _Wanted(NamedTuple):
    """What was asked about: a provider, and a part of the names of its models."""

    provider: str
    part: str


def models(parsed: Args, env: Env) -> int:
    tiers = settings_here(parsed, env).checked()
    desk = ModelDesk(tiers, env)
    if (problem := asyncio.run(desk.read_project_keys())) is not None:
        tell(problem)
    if desk.plugin_problem:
        tell(visible(desk.plugin_problem))
    if parsed.filter and not parsed.keys and (rows := _known_rows(parsed.filter, desk)):
        return (
            say_json({"default": _name(desk.configured()), "models": rows})
            if parsed.json
            else _say_rows(rows)
        )
    wanted = _wanted(parsed.filter, desk)
    if parsed.keys:
        keys = [row for row in desk.key_rows() if wanted is None or wanted.provider in row.providers]
        return say_json({"keys": keys}) if parsed.json else say_lines(_key_lines(keys))
    if wanted is None:
        return asyncio.run(_overview(desk, as_json=parsed.json, refresh=parsed.refresh))
    return asyncio.run(_listing(desk, wanted, as_json=parsed.json, refresh=parsed.refresh))


class ModelDesk:
    """The models of a person with these settings and this environment. Close it.

    `stored` are their stored credentials, where somebody else holds them already. `plugin_problem` says why the
    providers of plugins are not among them.
    """

    def __init__(self, tiers: Tiers, env: Env, *, stored: StoredKeys | None = None) -> None:
        self._tiers = tiers
        self._env = env
        self._sections: Mapping[str, Mapping[str, Any]] = tiers.get("providers") or {}
        self.plugin_problem = ""
        if tiers.get("plugins.enabled"):
            try:
                self._sections = provider_sections(tiers)
            except BridleError as problem:
                self.plugin_problem = problem.message
        clock = SystemClock()
        stored = stored or StoredKeys(where=folders(env), env=env, clock=clock)
        models = Models(env=env, clock=clock, stored=stored)
        self.models = models.with_settings(
            self._sections, store=tiers.section("credentials", CredentialSettings).store
        )
        self._catalogue = shared_catalogue(folders(env).state, clock)
        self.known = KnownModels(self.models, self._catalogue, tiers.get("models") or {})

    async def close(self) -> None:
        await self.models.close()

    async def read_project_keys(self) -> str | None:
        """Takes in the keys of the project here, if its secrets file counts; says why it does not."""
        found = await keys_here(self._env, os.getcwd())
        if found is None:
            return None
        root, keys = found
        self.models = self.models.of_project(root, keys.values)
        self.known = KnownModels(self.models, self._catalogue, self._tiers.get("models") or {})
        return keys.notice().message if keys.problem else None

    def configured(self) -> ModelChanged | None:
        """The model that settings name, if they name one that exists. Nobody is asked."""
        name = self._tiers.get("model")
        try:
            return self.known.choose(name) if name else None
        except BridleError:
            return None

    async def default(self) -> ModelChanged | None:
        """The model a run would use without `-m`; looks at servers on this machine if it must."""
        if self._tiers.get("model"):
            return self.configured()
        try:
            return await self.models.default()
        except BridleError:
            return None

    def why_no_default(self) -> str:
        name = self._tiers.get("model")
        if not name:
            return "none. Choose one: bridle config set model PROVIDER:MODEL"
        try:
            self.known.choose(name)
        except BridleError as failure:
            return f"{name} cannot be used. {failure.message}"
        return name

    def key_rows(self) -> list[KeyRow]:
        """Every variable a key may be in, in the order of the providers' names."""
        users: dict[str, list[str]] = {}
        for name in self.models.names():
            endpoint = self.endpoint(name)
            if endpoint is not None and endpoint.key_env:
                users.setdefault(endpoint.key_env, []).append(name)
        return [
            KeyRow(variable=variable, providers=tuple(names), present=self._holds(variable))
            for variable, names in users.items()
        ]

    def endpoint(self, name: str) -> Endpoint | None:
        """A provider's endpoint as far as it is known: one without an address has the preset's."""
        try:
            return self.models.endpoint(name)
        except BridleError:
            return preset(name)

    def key_from(self, endpoint: Endpoint) -> str | None:
        """Where the key of a provider is; never the key. A store that cannot be opened holds none here."""
        self.configured()  # BRIDLE_API_KEY is for the provider of the chosen model
        try:
            return self.models.key_source(endpoint)
        except CredentialError:
            return None

    async def local_servers(self, only: str | None = None) -> tuple[LocalServer, ...]:
        """Servers that answer on this machine, at their usual address or the one settings give."""
        endpoints = [self.endpoint(name) for name in ([only] if only else self.models.names())]
        local = [endpoint for endpoint in endpoints if endpoint is not None and endpoint.local]
        return await find_local_servers(self.models.connections, presets=local)

    def provider_row(self, name: str, servers: Mapping[str, LocalServer]) -> ProviderRow:
        if name == DEMO:
            return ProviderRow(
                name=name, title="Demo", usable=True, note="plays a script: no key, no network"
            )
        endpoint = self.endpoint(name)
        if endpoint is None:  # a section that cannot be used
            return ProviderRow(name=name, title=name, usable=False, note=self._refusal(name) or "")
        usable, note = self._state(endpoint, servers.get(name))
        return ProviderRow(
            name=name,
            title=endpoint.title or name,
            usable=usable,
            note=note,
            address=endpoint.address if endpoint.base_url else "",
            key_variable=endpoint.key_env,
            local=endpoint.local,
        )

    def _state(self, endpoint: Endpoint, server: LocalServer | None) -> tuple[bool, str]:
        refusal = self._refusal(endpoint.name)
        if refusal is not None:
            return False, refusal
        if server is not None:
            return True, f"answers at {server.endpoint.address}, {counted(len(server.models), 'model')}"
        if endpoint.local:
            return False, f"not running here; start it: {endpoint.start_hint}"
        source = self.key_from(endpoint)
        if source is not None:
            return True, f"key from {source}"
        if endpoint.key_env:
            return False, f"{endpoint.key_env} is not set"
        return False, f"no key; store one: bridle login {endpoint.name}"

    def _refusal(self, name: str) -> str | None:
        """Why a provider cannot be asked at all, if it cannot."""
        try:
            self.models.chat(name)
        except BridleError as failure:
            return failure.message.rstrip(".")
        return None

    def _holds(self, variable: str) -> bool:
        return bool((self._env.get(variable, "") or self.models.project_keys.get(variable, "")).strip())


def _wanted(text: str | None, desk: ModelDesk) -> _Wanted | None:
    """`openai`, or `openai:gpt` for the models with that in their names."""
    if not text:
        return None
    provider, _, part = text.partition(":")
    if provider not in desk.models.names():
        raise desk.models.unknown_provider(provider)
    return _Wanted(provider, part)


async def _overview(desk: ModelDesk, *, as_json: bool, refresh: bool) -> int:
    try:
        if refresh:
            await _refresh(desk)
        servers = {server.endpoint.name: server for server in await desk.local_servers()}
        default = await desk.default()
    finally:
        await desk.close()
    providers = [desk.provider_row(name, servers) for name in desk.models.names()]
    rows = [row for name, server in servers.items() for row in _rows(name, server.models, default)]
    if as_json:
        return say_json({"default": _name(default), "providers": providers, "models": rows})
    lines = [*_provider_lines(providers), ""]
    if rows:
        lines += ["On this machine", *_model_lines(rows), ""]
    quiet = "" if refresh else "; nothing was asked outside this machine"
    lines += [
        f"Default     {visible_line(_name(default) or desk.why_no_default())}",
        f"Its models  bridle models PROVIDER   asks that provider{quiet}",
    ]
    return say_lines(lines)


async def _refresh(desk: ModelDesk) -> None:
    """Asks every provider whose key is there for its list, and says what came of it."""
    for endpoint in desk.models.with_keys():
        try:
            listed = await desk.known.listing(endpoint.name, refresh=True)
        except BridleError as failure:
            tell(failure.message)
        else:
            tell(f"{endpoint.name} lists {counted(len(listed.models), 'model')}")


def _known_rows(text: str, desk: ModelDesk) -> list[ModelRow]:
    """Every model with this in its name that is known without asking; none where it names a provider."""
    if text.partition(":")[0] in desk.models.names():
        return []
    rows: list[ModelRow] = []
    for name in desk.models.names():
        endpoint = None if name == DEMO else desk.endpoint(name)
        if endpoint is not None:
            found = [
                info for info in desk.known.catalogue.models(endpoint) if text.lower() in info.name.lower()
            ]
            rows += _rows(name, found, desk.configured())
    return rows


def _say_rows(rows: Sequence[ModelRow]) -> int:
    return say_lines(_model_lines(rows))


async def _listing(desk: ModelDesk, wanted: _Wanted, *, as_json: bool, refresh: bool) -> int:
    try:
        listed = await _models_of(desk, wanted.provider, refresh=refresh)
    finally:
        await desk.close()
    if listed.note:
        tell(listed.note)
    part = wanted.part.lower()
    rows = [
        row
        for row in _rows(wanted.provider, listed.models, desk.configured())
        if part in row.info.name.lower()
    ]
    if as_json:
        return say_json({"default": _name(desk.configured()), "models": rows})
    if not rows:
        narrowed = f' with "{visible_line(wanted.part)}" in its name' if part else ""
        raise UsageError(f"{wanted.provider} lists no model{narrowed}")
    return _say_rows(rows)


async def _models_of(desk: ModelDesk, provider: str, *, refresh: bool) -> Listed:
    if provider == DEMO:
        return Listed(tuple(ModelInfo(name=name) for name in shipped_scripts()))
    endpoint = desk.endpoint(provider)
    if endpoint is not None and endpoint.local:  # it is asked every time: what it serves changes
        for server in await desk.local_servers(only=provider):
            return Listed(server.models)
        return Listed(await desk.models.chat(provider).models())
    return await desk.known.listing(provider, refresh=refresh)


def _rows(provider: str, found: Sequence[ModelInfo], default: ModelChanged | None) -> list[ModelRow]:
    rows: list[ModelRow] = []
    for info in found:
        name = f"{provider}:{info.name}"
        rows.append(ModelRow(model=name, default=name == _name(default), info=info))
    return rows


def _name(model: ModelChanged | None) -> str | None:
    return None if model is None else f"{model.provider}:{model.model}"


def _provider_lines(rows: Sequence[ProviderRow]) -> list[str]:
    lines = aligned((row.name, row.note) for row in rows)
    return [f"{USABLE if row.usable else ' '} {line}" for row, line in zip(rows, lines, strict=True)]


def _model_lines(rows: Sequence[ModelRow]) -> list[str]:
    names = [visible_line(row.model) for row in rows]
    width = min(max(map(len, names)), 50)
    return [
        f"{DEFAULT if row.default else ' '} {name:<{width}}   {_about(row)}".rstrip()
        for name, row in zip(names, rows, strict=True)
    ]


def _about(row: ModelRow) -> str:
    info = row.info
    facts = [
        "default" if row.default else "",
        "" if info.can_chat else "cannot chat",
        _context(info) if info.can_chat else "",
        _size(info.size_bytes) if info.size_bytes else "",
        "no tools" if info.can_chat and info.tools is False else "",
        "images" if info.images else "",
        _price(info),
    ]
    return "   ".join(fact for fact in facts if fact)


def _context(info: ModelInfo) -> str:
    served, longest = info.context_tokens, info.longest_context_tokens
    if served is None:
        return f"up to {window_words(longest)} context" if longest else ""
    of = f" (of {window_words(longest)})" if longest and longest > served else ""
    return f"{window_words(served)} context{of}"


def _size(size_bytes: int) -> str:
    if size_bytes >= 9.5e8:
        return f"{size_bytes / 1e9:.0f} GB"
    return f"{max(1, round(size_bytes / 1e6))} MB"


def _price(info: ModelInfo) -> str:
    if info.price_in is None or info.price_out is None:
        return ""
    return f"${info.price_in:.4g} in, ${info.price_out:.4g} out per million tokens"


def _key_lines(rows: Sequence[KeyRow]) -> list[str]:
    lines = aligned((row.variable, ", ".join(row.providers)) for row in rows)
    marked = [f"{USABLE if row.present else ' '} {line}" for row, line in zip(rows, lines, strict=True)]
    return [*marked, f"{USABLE} there is something in it; keys are never shown"]
