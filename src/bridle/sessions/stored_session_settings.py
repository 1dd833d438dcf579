"""Settings of stored sessions."""

from typing import Annotated, Literal

import msgspec

from bridle.engine.setting_fields import About, Count, Number, Wanted


class StoredSessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    retention_days: Annotated[
        Literal["never"] | Count,
        Wanted('"never" or a whole number of days above 0'),
        About("How long the content of a session is kept after it was last used."),
    ] = 30
    idle_timeout_s: Annotated[Number, About("How long a session without clients or work stays open.")] = 1800
