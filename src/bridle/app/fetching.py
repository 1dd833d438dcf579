"""The web as the tools of a process see it: what fetches, and what says where nobody may be sent."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from bridle.base.clock import Clock

if TYPE_CHECKING:
    from bridle.base.web import Answer, Judge, Wanted, Web

    JudgedFetch: TypeAlias = Callable[[str, Wanted, Judge], Awaitable[Answer]]
    """Gets a page: see `bridle.base.web.Web.fetch`. The last argument says where a session must not go."""


def web(env: Mapping[str, str], clock: Clock) -> JudgedFetch:
    """Fetches pages from public addresses only. `env` names proxies and certificates; nothing of it is sent."""

    @functools.cache
    def made() -> Web:
        from bridle.base.web import Web
        from bridle.safety.addresses import address_problem, url_problem

        return Web(env=env, clock=clock, judge_url=url_problem, judge_address=address_problem)

    async def fetch(url: str, wanted: Wanted, judge_url: Judge) -> Answer:
        return await made().fetch(url, wanted, judge_url)

    return fetch
