"""Which models a caller has, and the provider behind each name.

`provider:model` is read here. A provider is a preset, a `[providers.NAME]` section, or both; its key comes from the
environment, the settings, the project's secrets file, or else from what `bridle login` stored. Nothing is contacted
before a person chose a model, except servers on this machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import msgspec

from bridle.base.clock import Clock
from bridle.base.fs.paths import PROJECT_SECRETS_FILE
from bridle.base.text.terminal_text import visible
from bridle.engine.ports import Provider
from bridle.protocol.errors import BridleError, CommandRefused, ProviderError, UsageError
from bridle.protocol.events import ModelChanged
from bridle.providers import DEMO
from bridle.providers.presets import PRESETS, USUAL_MODELS, configured, key_variables, preset, with_keys
from bridle.providers.script import find_script, parse_script, script_name, shipped_scripts
from bridle.providers.scripted import ScriptedModel

if TYPE_CHECKING:
    from bridle.base.net.http import HttpConnections
    from bridle.providers.credential_ports import BackEnd, Credentials, GivenKey, HelperUse, KeyForwarders
    from bridle.providers.endpoints import Endpoint
    from bridle.providers.local_servers import LocalServer
    from bridle.providers.raw_dump import RawExchange
    from bridle.providers.remote import Connections, RemoteModel

OWN_KEY = "BRIDLE_API_KEY"
"""The key for the provider of the chosen model, whichever that is."""
LOGIN = "bridle login"
"""Where a stored credential came from, as people know it."""
_NOT_OF_ENDPOINT = ("api_key", "model", "oauth")
SHORTEST_KEY = 8
"""What is shorter is no secret, and would turn up by chance."""


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a session's settings say of providers and credentials, and the keys of the project at `project`."""

    sections: Mapping[str, Mapping[str, Any]] = {}
    store: BackEnd | None = None
    helper: HelperUse = "never"
    folder: str = ""
    project: str = ""
    project_keys: Mapping[str, str] = {}


_NOTHING = _Said()


class _Shared:
    """What the models of a process share, whichever session asks: `keys` are those that were sent somewhere."""

    def __init__(self) -> None:
        self.connections: HttpConnections | None = None
        self.keys: set[str] = set()
        self.forwarders: KeyForwarders | None = None


class Models:
    """The models of a caller whose settings say nothing; `with_settings` gives those of a session.

    `given` stands in for a provider of its name, in tests and for embedders. `stored` are the credentials that
    `bridle login` left; without it there are none. With `forwarders`, made when the first is wanted, requests can go by
    way of processes that hold the keys: then what is stored is never opened here. `listening`: others can reach this
    engine.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        clock: Clock,
        given: Provider | None = None,
        stored: Credentials | None = None,
        forwarders: Callable[[], KeyForwarders] | None = None,
        listening: bool = False,
        settings: _Said = _NOTHING,
        shared: _Shared | None = None,
    ) -> None:
        self._env = env
        self._clock = clock
        self._given = given
        self._new_forwarders = forwarders
        self._listening = listening
        self._settings = settings
        self._shared = shared or _Shared()
        self.stored = stored.kept_in(settings.store) if stored and settings.store else stored
        self._sections = settings.sections
        is_wanted = settings.helper == "always" or (settings.helper == "serve" and listening)
        self._is_forwarding = forwarders is not None and is_wanted
        self._names_stored: frozenset[str] = frozenset()
        self._chosen = ""
        self._chats: dict[tuple[str, bool], RemoteModel] = {}
        self._keep: Callable[[RawExchange], None] | None = None
        self._scripts: dict[str, ScriptedModel] = {}
        self.project = settings.project
        self.project_keys = settings.project_keys

    def with_settings(
        self,
        sections: Mapping[str, Mapping[str, Any]],
        *,
        store: BackEnd | None = None,
        helper: HelperUse = "never",
        folder: str = "",
    ) -> Models:
        """The models of a session with these `[providers.NAME]` sections. What others have stays as it is.

        `store` is where stored credentials are, `helper` whether another process holds them. Scripts are named in
        `folder`. Connections, helpers and
        what must not be seen are shared.
        """
        return self._with(_Said(sections=sections, store=store, helper=helper, folder=folder))

    def of_project(self, root: str, keys: Mapping[str, str]) -> Models:
        """The same models for a session in a project that has keys of its own in its secrets file."""
        for key in keys.values():
            self._keep_out(key)
        return self._with(msgspec.structs.replace(self._settings, project=root, project_keys=keys))

    def _with(self, settings: _Said) -> Models:
        return Models(
            env=self._env,
            clock=self._clock,
            given=self._given,
            stored=self.stored,
            forwarders=self._new_forwarders,
            listening=self._listening,
            settings=settings,
            shared=self._shared,
        )

    def choose(self, name: str, *, by_agent: bool = False, by_guest: bool = False) -> ModelChanged:
        """Reads `provider:model`, which somebody has chosen, and makes sure that it can be asked.

        Whom the general key goes to is for a person to say: an agent chooses no other provider that would get it. And
        neither an agent nor a guest has a file read as a script: its words would be told.
        """
        if by_agent or by_guest:
            self._refuse_script_file(name)
        chosen = self.named(name)
        if by_agent and chosen.provider != self._chosen and self._would_get_own_key(chosen.provider):
            raise CommandRefused("NotAPerson", what=f"Whether {chosen.provider} gets {OWN_KEY}")
        self._chosen = chosen.provider
        return chosen

    def _refuse_script_file(self, name: str) -> None:
        provider, model = self._split(name)
        if provider == DEMO and self._given is None and model and model not in shipped_scripts():
            raise CommandRefused("NotAPerson", what="A script from a file")

    def go_on_with(self, model: ModelChanged) -> None:
        """Makes sure that the model a person chose in an earlier run can still be asked."""
        self.provider(model.provider, model.model)
        self._chosen = model.provider

    def named(self, name: str) -> ModelChanged:
        """The same for a name that nobody chose just now, such as a fallback: it is no new choice of a provider."""
        provider, model = self._split(name)
        if provider == DEMO and self._given is None:
            model = script_name(model or "hello", folder=self._settings.folder)
        self.provider(provider, model)
        return ModelChanged(provider=provider, model=model)

    def provider(self, provider: str, model: str) -> Provider:
        if self._given is not None and provider == self._given.name:
            return self._given
        if provider == DEMO:
            return self._script(model)
        if (provider, provider == self._chosen) not in self._chats and provider not in self.names():
            raise self.unknown_provider(provider)
        if not model:
            raise UsageError(
                f"Which model of {provider}? Write {provider}:MODEL; bridle models {provider} lists them"
            )
        return self.chat(provider)

    def chat(self, name: str) -> RemoteModel:
        """The provider of an endpoint. Raises when nobody knows it."""
        place = (name, name == self._chosen)
        if place not in self._chats:
            from bridle.providers.remote import RemoteModel

            endpoint = self.endpoint(name)
            if self._is_forwarding:
                self._chats[place] = self._forwarded(endpoint, self._forwarders())
                return self._chats[place]
            self._chats[place] = RemoteModel(
                endpoint,
                lambda: self._key(endpoint),
                self._recorded(self.connections),
                make_ready=lambda: self._make_ready(endpoint),
                key_source=lambda: self._source_used(endpoint),
            )
        return self._chats[place]

    def keep_exchanges(self, keep: Callable[[RawExchange], None]) -> None:
        """Hands whatever goes to providers and comes back from them to `keep`, from now on. For these models alone."""
        self._keep = keep
        self._chats.clear()

    def _recorded(self, connections: Connections) -> Connections:
        if self._keep is None:
            return connections
        from bridle.providers.raw_dump import RecordedConnections

        return RecordedConnections(connections, self._keep)

    def endpoint(self, name: str) -> Endpoint:
        section = self._sections.get(name)
        if section is not None:
            settings = {key: value for key, value in section.items() if key not in _NOT_OF_ENDPOINT}
            try:
                return configured(name, settings)
            except ValueError as problem:
                raise UsageError(f"[providers.{name}]: {problem}") from None
        known = preset(name)
        if known is None:
            raise self.unknown_provider(name)
        if not known.base_url:
            raise UsageError(f"{name} needs an address: set providers.{name}.base_url")
        return known

    def unknown_provider(self, name: str) -> CommandRefused:
        """What to raise for a provider that nobody knows: it names those there are, and the one probably meant."""
        from bridle.providers.remote import near_names

        known = self.names()
        near = [] if name in known else near_names(name, known)
        listed = ", ".join(known) + (f" (nearest: {near[0]})" if near else "")
        return CommandRefused("UnknownProvider", provider=visible(name, newlines=False), known=listed)

    def names(self) -> list[str]:
        return sorted({DEMO, *self._sections, *(preset.name for preset in PRESETS)})

    @property
    def configured(self) -> tuple[str, ...]:
        """The providers that settings say something of."""
        return tuple(self._sections)

    def with_keys(self) -> list[Endpoint]:
        """The endpoints whose key is at hand. Raises `CredentialError` where stored ones cannot be seen."""
        shell = {name: value for name, value in self._env.items() if value.strip()}
        found = list(with_keys({**self.project_keys, **shell}))
        names = {endpoint.name for endpoint in found}
        for name in sorted(self._stored_names() - names):
            with contextlib.suppress(BridleError):
                found.append(self.endpoint(name))
        return found

    async def look_for_stored(self) -> None:
        """Finds out which credentials are stored, where this process does not open them. Raises `ProviderError`."""
        if self._is_forwarding:
            assert self.stored is not None, "who forwards has something stored, or could"
            self._names_stored = await self._forwarders().names(self.stored)

    def key_source(self, endpoint: Endpoint) -> str | None:
        """Where the key of a provider comes from; None when it has none. Never the key."""
        if (source := self._given_key(endpoint)[1]) is not None:
            return source
        return LOGIN if endpoint.name in self._stored_names() else None

    async def local_servers(self) -> tuple[LocalServer, ...]:
        from bridle.providers.local_servers import find_local_servers

        names = {preset.name for preset in PRESETS if preset.local} | self._sections.keys()
        endpoints: list[Endpoint] = []
        for name in sorted(names):
            with contextlib.suppress(BridleError):
                endpoints.append(self.endpoint(name))
        local = [endpoint for endpoint in endpoints if endpoint.local]
        return await find_local_servers(self.connections, presets=local)

    def default_of_keys(self) -> str | None:
        """`provider:model` for somebody who has a key and named no model; None where a key does not say which.

        Only who shows the choice before anything is sent goes by it. Raises `CredentialError` as `with_keys` does.
        """
        keyed = {endpoint.name for endpoint in self.with_keys()}
        return next((f"{name}:{model}" for name, model in USUAL_MODELS.items() if name in keyed), None)

    async def default(self) -> ModelChanged:
        """The model nobody named: of a server on this machine. A key alone does not say which model it is for."""
        await self.look_for_stored()
        keyed = self.with_keys()
        for endpoint in keyed:
            if endpoint.models:
                return ModelChanged(provider=endpoint.name, model=endpoint.models[0])
        for server in await self.local_servers():
            for model in server.models:
                if model.can_chat:
                    return ModelChanged(provider=server.endpoint.name, model=model.name)
        raise CommandRefused("NoModel", **self._no_model(keyed))

    @property
    def connections(self) -> HttpConnections:
        """Connections to model servers, opened when the first one is needed."""
        if self._shared.connections is None:
            from bridle.base.net.http import HttpConnections

            self._shared.connections = HttpConnections(env=self._env, clock=self._clock)
        return self._shared.connections

    def keys_in_use(self) -> AbstractSet[str]:
        """The keys that were sent somewhere by any session: they must appear nowhere else."""
        stored = self.stored.secrets if self.stored is not None else None
        if not stored:  # asked for with every event
            return self._shared.keys
        return self._shared.keys | {secret for secret in stored if len(secret) >= SHORTEST_KEY}

    async def close(self) -> None:
        if self._shared.forwarders is not None:
            await self._shared.forwarders.close()
        if self._shared.connections is not None:
            await self._shared.connections.close()

    def _split(self, name: str) -> tuple[str, str]:
        """At the first colon; `provider/model` too when the first part is a provider. A provider by itself means the
        model that its settings name."""
        provider, colon, model = name.partition(":")
        if not colon and "/" in name:
            first, _, rest = name.partition("/")
            if first in self.names():
                return first, rest
        return provider, model or self._sections.get(provider, {}).get("model", "")

    def _script(self, model: str) -> ScriptedModel:
        if model not in self._scripts:
            path, text = find_script(model, folder=self._settings.folder)
            script = parse_script(text, path=path)
            self._scripts[model] = ScriptedModel(script, clock=self._clock, name=DEMO)
        return self._scripts[model]

    def _forwarders(self) -> KeyForwarders:
        if self._shared.forwarders is None:
            assert self._new_forwarders is not None, "who forwards has a way to"
            self._shared.forwarders = self._new_forwarders()
        return self._shared.forwarders

    def _forwarded(self, endpoint: Endpoint, forwarders: KeyForwarders) -> RemoteModel:
        """The provider of an endpoint whose key another process adds."""
        from bridle.providers.remote import RemoteModel

        chosen = endpoint.name == self._chosen
        assert self.stored is not None, "who forwards has something stored, or could"

        def given() -> GivenKey:
            key, place = self._given_key(endpoint, chosen=chosen)
            self._keep_out(key)
            return key, place

        section = self._sections.get(endpoint.name, {})
        forwarder = forwarders.of(endpoint, given, section, self.stored, chosen=chosen, project=self.project)
        return RemoteModel(
            endpoint,
            lambda: None,
            self._recorded(forwarder),
            make_ready=forwarder.find,
            key_source=lambda: forwarder.source,
            key_is_added=True,
        )

    def _key(self, endpoint: Endpoint) -> str | None:
        key = self._given_key(endpoint)[0]
        if not key and self.stored is not None:
            key = self.stored.key(endpoint.name) or ""
        self._keep_out(key)
        return key or endpoint.placeholder_key or None

    def _keep_out(self, key: str) -> None:
        if len(key) >= SHORTEST_KEY:
            self._shared.keys.add(key)

    def _given_key(self, endpoint: Endpoint, *, chosen: bool | None = None) -> GivenKey:
        """The key that environment, settings or project hold, and where; a key goes before every sign-in.

        `chosen`: whether this is the provider of the chosen model, where that is not the one chosen now.
        """
        own = OWN_KEY if (endpoint.name == self._chosen if chosen is None else chosen) else ""
        places = (
            (endpoint.key_env, self._env.get(endpoint.key_env or "")),
            (f"providers.{endpoint.name}.api_key", self._sections.get(endpoint.name, {}).get("api_key")),
            (own, self._env.get(own)),
            (PROJECT_SECRETS_FILE, self.project_keys.get(endpoint.key_env or "")),
        )
        for place, key in places:
            if key and key.strip():
                return key, place
        return "", None

    def _would_get_own_key(self, provider: str) -> bool:
        if provider == DEMO or (self._given is not None and provider == self._given.name):
            return False
        return self._given_key(self.endpoint(provider), chosen=True)[1] == OWN_KEY

    async def _make_ready(self, endpoint: Endpoint) -> None:
        """Looks for a stored credential where no key is given. Who needs no key does not fail for want of one."""
        if self.stored is None or self._given_key(endpoint)[0]:
            return
        section = self._sections.get(endpoint.name, {})
        try:
            await self.stored.make_ready(endpoint.name, section.get("oauth"), lambda: self.connections)
        except ProviderError:
            if endpoint.needs_key:
                raise

    def _source_used(self, endpoint: Endpoint) -> str | None:
        """Where the key came from that a request was sent with."""
        if (source := self._given_key(endpoint)[1]) is not None:
            return source
        return LOGIN if self.stored is not None and self.stored.key(endpoint.name) else None

    def _stored_names(self) -> frozenset[str]:
        if self._is_forwarding:
            return self._names_stored
        return self.stored.providers() if self.stored is not None else frozenset()

    def _no_model(self, keyed: list[Endpoint]) -> dict[str, str]:
        if keyed:
            name = keyed[0].name
            source = self.key_source(keyed[0])
            found = f"A key for {name} is there ({source}); which of its models? bridle models {name}, "
            keys, following = "a key alone does not choose one", f"{found}then -m {name}:MODEL."
        elif self._env.get(OWN_KEY):
            keys = f"{OWN_KEY} does not say whose key it is"
            following = "set BRIDLE_MODEL=provider:model too, or give -m provider:model."
        else:
            keys = "no key was found"
            following = "bridle login, or set BRIDLE_MODEL=provider:model and its key."
        return {"keys": keys, "variables": str(len(key_variables())), "next": following}
