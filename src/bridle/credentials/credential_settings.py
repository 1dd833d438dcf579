"""Settings of stored credentials."""

from typing import Annotated, Literal

import msgspec

from bridle.engine.setting_fields import About, Wanted


class CredentialSettings(msgspec.Struct, frozen=True, kw_only=True):
    store: Annotated[
        Literal["encrypted", "keyring"], Wanted("a credential store"), About("Where login keeps keys.")
    ] = "encrypted"
    helper: Annotated[
        Literal["always", "serve", "never"],
        Wanted("a use of the credential helper"),
        About(
            "Whether a separate process holds the key: always, only when others can reach the engine (serve), or never."
        ),
    ] = "serve"
