"""Settings of models and providers."""

from typing import Annotated

import msgspec

from bridle.engine.setting_fields import (
    About,
    Address,
    Count,
    Dollars,
    EnvironmentName,
    Number,
    PlainTable,
    TextTable,
    Wanted,
)
from bridle.protocol.messages import Effort
from bridle.providers.endpoints import WireName


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    model: Annotated[
        str | None,
        About("The model to use, as provider:model.", workspace="after ack", also=("default_model",)),
    ] = None
    fallback_model: Annotated[
        str | None, About("The model to continue with when the first is overloaded.", workspace="after ack")
    ] = None
    effort: Annotated[
        Effort | None, Wanted("an effort"), About("How much the model thinks.", workspace="after ack")
    ] = None


class KeySettings(msgspec.Struct, frozen=True, kw_only=True):
    api_key: Annotated[
        str | None,
        About(
            "The key for the provider of the chosen model, from BRIDLE_API_KEY only; in files use providers.*.key_env.",
            secret=True,
            instead="name the environment variable that holds the key: providers.NAME.key_env",
        ),
    ] = None
    oauth_credentials: Annotated[
        PlainTable | None,
        About(
            "The result of a sign-in; bridle login stores that encrypted.",
            secret=True,
            awaits="sign-ins written by hand",
        ),
    ] = None


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    client_id: Annotated[str | None, About("The client id for signing in.")] = None
    token_url: Annotated[Address | None, About("The token endpoint.")] = None
    authorize_url: Annotated[Address | None, About("The page where a browser starts to sign in.")] = None
    device_url: Annotated[Address | None, About("The endpoint for signing in by a code.")] = None
    redirect_uri: Annotated[Address | None, About("The registered address on this machine.")] = None
    scopes: Annotated[tuple[str, ...], About("The scopes to ask for.")] = ()
    parameters: Annotated[TextTable, About("More fields for authorize_url.")] = {}


class EndpointSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The endpoint of a new provider, or what differs from the preset of that name.

    `auth` is `bearer`, or the name of the header that carries the bare key.
    """

    wire: Annotated[WireName | None, Wanted("a wire"), About("The protocol this endpoint speaks.")] = None
    base_url: Annotated[Address | None, About("The address requests go to.")] = None
    key_env: Annotated[
        EnvironmentName | None, About("The environment variable that holds the key.", also=("api_key_env",))
    ] = None
    auth: Annotated[str | None, About('How the key is sent: "bearer", or the header that carries it.')] = None
    local: Annotated[bool | None, About("Whether it runs on this machine: no key needed, no cost.")] = None
    first_part_s: Annotated[
        Number | None,
        About("How long its answer may take to begin; 120, or 600 where it runs on this machine."),
    ] = None
    idle_s: Annotated[Number | None, About("How long it may be silent within an answer; 60.")] = None
    alive_s: Annotated[Number | None, About("How long signs of life may replace an answer; 600.")] = None
    headers: Annotated[TextTable, About("Headers added to every request.", private=True)] = {}
    quirks: Annotated[PlainTable | None, About("What this endpoint does differently.", folds=True)] = None


class ProviderSettings(EndpointSettings, frozen=True, kw_only=True):
    model: Annotated[
        str | None,
        About("Its model for agents that name this provider, and for -m NAME.", also=("default_model",)),
    ] = None
    api_key: Annotated[str | None, About("The key itself; a variable or login is better.", secret=True)] = (
        None
    )
    oauth: OAuthSettings | None = None
    disabled: Annotated[bool, About("Leave this provider out.")] = False


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    context_tokens: Annotated[Count | None, About("How many tokens provider:model takes.")] = None
    max_output_tokens: Annotated[Count | None, About("How many tokens it answers at most.")] = None
    tools: Annotated[bool | None, About("Whether it can use tools.")] = None
    images: Annotated[bool | None, About("Whether it reads images.")] = None
    price_in: Annotated[Dollars | None, About("Dollars for a million tokens it reads.")] = None
    price_out: Annotated[Dollars | None, About("Dollars for a million tokens it writes.")] = None
    price_cache_read: Annotated[Dollars | None, About("Dollars for a million tokens from its cache.")] = None
    price_cache_write: Annotated[Dollars | None, About("Dollars for a million tokens into its cache.")] = None


class DebugSettings(msgspec.Struct, frozen=True, kw_only=True):
    raw: Annotated[
        bool, About("Keep requests and answers as they were, encrypted, for bridle debug raw.")
    ] = False
