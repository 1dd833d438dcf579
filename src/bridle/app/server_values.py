"""What `${NAME}` in the settings of an MCP server stands for: a variable, or what a person stored for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridle.providers.credential_ports import Credentials


class ServerValues:
    """For the servers of one session. Variables go before what is stored, as they do for keys of providers.

    `session_env` is what commands of the session see, `process_env` all that this process has.
    """

    def __init__(
        self, session_env: Mapping[str, str], process_env: Mapping[str, str], stored: Credentials | None
    ) -> None:
        self._session_env = session_env
        self._process_env = process_env
        self._stored = stored

    async def find(self, names: Collection[str], *, of_project: bool) -> Mapping[str, str]:
        env = self._session_env if of_project else {**self._process_env, **self._session_env}
        found = {name: env[name] for name in names if env.get(name)}
        if of_project or self._stored is None:
            return found
        for name in names:
            if name not in found and (value := await self._stored.value(name)):
                found[name] = value
        return found
