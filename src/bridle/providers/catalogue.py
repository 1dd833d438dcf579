"""The catalogue of models, known without asking: what a person says, what a provider last listed, and a snapshot.

The snapshot is data (`catalogue.json`): a few dozen models, each price as of its date. A listing that was fetched is
kept in the state folder and counts for a day; after that it is still better than nothing, and fetched again when
somebody asks. Nothing here asks anybody.
"""

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bridle.base.fs import files
from bridle.providers.endpoints import Endpoint
from bridle.providers.model_listing import FREE, UNKNOWN, ModelFacts, ModelInfo

TTL_MS: Final = 24 * 3600 * 1000
_MAX_BYTES: Final = 16 * 1024 * 1024


class Snapshot(msgspec.Struct, frozen=True):
    """The models that come with Bridle, by provider; `date` is when their prices were looked up."""

    date: str
    models: Mapping[str, Mapping[str, ModelFacts]]


class KeptListing(msgspec.Struct, frozen=True, kw_only=True):
    """A listing as a provider gave it, and when. Another address is another provider."""

    base_url: str
    fetched_ms: int
    models: tuple[ModelInfo, ...]


class HeardFacts(msgspec.Struct, frozen=True):
    """What providers said: the last listing of each, and what servers on this machine said of a model at an address."""

    kept: dict[str, KeptListing | None] = {}
    looked: dict[tuple[str, str, str], ModelFacts] = {}


@functools.cache
def snapshot() -> Snapshot:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "catalogue.json")
    return msgspec.json.decode(files.read_limited(path, _MAX_BYTES).data, type=Snapshot)


class Catalogue:
    """Facts by provider and model. `folder` is where listings are kept; nothing is written before one is.

    `said` are a person's own words on models, by `provider:model`; `heard` is what others with other words share.
    """

    def __init__(
        self,
        folder: str,
        *,
        now_ms: Callable[[], int],
        said: Mapping[str, ModelFacts] | None = None,
        heard: HeardFacts | None = None,
    ) -> None:
        self._folder = folder
        self._now_ms = now_ms
        self._said = said or {}
        self._heard = heard or HeardFacts()
        self._kept, self._looked = self._heard.kept, self._heard.looked

    def with_settings(self, sections: Mapping[str, Mapping[str, Any]]) -> "Catalogue":
        """The same with what a person says in `[models."PROVIDER:MODEL"]` sections; what was listed is shared.

        Raises `ValueError` with one clause for a wrong one.
        """
        said = {name: _said(name, section) for name, section in sections.items()}
        return Catalogue(self._folder, now_ms=self._now_ms, said=said, heard=self._heard)

    def facts(self, endpoint: Endpoint, model: str) -> ModelFacts:
        """What is known of a model. A person's word counts most, then its server's, the listing, the snapshot."""
        known = FREE if endpoint.local else snapshot().models.get(endpoint.name, {}).get(model, UNKNOWN)
        kept = self.kept(endpoint)
        if kept is not None:
            listed = next((info for info in kept.models if info.name == model), None)
            known = known if listed is None else known.behind(listed)
        looked = self._looked.get((endpoint.name, endpoint.base_url, model))
        known = known if looked is None else known.behind(looked)
        said = self._said.get(f"{endpoint.name}:{model}")
        return known if said is None else known.corrected(said)

    def merged(self, endpoint: Endpoint, listed: ModelInfo) -> ModelInfo:
        """A listed model with what else is known of it. What the server says now goes before what it once said."""
        known = self.facts(endpoint, listed.name).behind(listed)
        said = self._said.get(f"{endpoint.name}:{listed.name}")
        return listed.behind(known if said is None else known.corrected(said))

    def models(self, endpoint: Endpoint) -> tuple[ModelInfo, ...]:
        """The models of a provider that are known without asking it, newest listing or else the snapshot."""
        kept = self.kept(endpoint)
        if kept is not None:
            return tuple(self.merged(endpoint, info) for info in kept.models)
        names = dict.fromkeys((*snapshot().models.get(endpoint.name, {}), *endpoint.models))
        return tuple(self.merged(endpoint, ModelInfo(name=name)) for name in names)

    def kept(self, endpoint: Endpoint) -> KeptListing | None:
        """The last listing of a provider at this address, however old."""
        if endpoint.name not in self._kept:
            self._kept[endpoint.name] = self._read(endpoint.name)
        kept = self._kept[endpoint.name]
        return kept if kept is not None and kept.base_url == endpoint.base_url else None

    def is_fresh(self, kept: KeptListing) -> bool:
        return 0 <= self._now_ms() - kept.fetched_ms < TTL_MS

    def keep(self, endpoint: Endpoint, models: Sequence[ModelInfo]) -> None:
        """Keeps a listing for the next time. Where it cannot be written, it holds for this process."""
        kept = KeptListing(base_url=endpoint.base_url, fetched_ms=self._now_ms(), models=tuple(models))
        self._kept[endpoint.name] = kept
        with contextlib.suppress(OSError):
            files.private_folder(self._folder)
            files.write_atomic(self._path(endpoint.name), msgspec.json.encode(kept), durable=False)

    def learn(self, endpoint: Endpoint, model: str, facts: ModelFacts) -> None:
        """What a server on this machine said of a model just now; for this process only."""
        self._looked[endpoint.name, endpoint.base_url, model] = facts

    def _read(self, provider: str) -> KeptListing | None:
        try:
            return msgspec.json.decode(
                files.read_limited(self._path(provider), _MAX_BYTES).data, type=KeptListing
            )
        except (OSError, msgspec.MsgspecError):
            return None

    def _path(self, provider: str) -> str:
        """People choose the names of providers; a file name takes not every one."""
        name = provider if provider.isascii() and provider.isalnum() else None
        return os.path.join(
            self._folder, f"{name or hashlib.sha256(provider.encode()).hexdigest()[:24]}.json"
        )


def _said(name: str, section: Mapping[str, Any]) -> ModelFacts:
    try:
        return msgspec.convert(dict(section), ModelFacts)
    except msgspec.ValidationError as problem:
        raise ValueError(f'[models."{name}"]: {problem}') from None
