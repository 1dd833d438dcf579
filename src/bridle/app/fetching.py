"""The web as the tools of a process see it: what fetches, and what says where nobody may be sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from bridle.base.addresses import address_problem, url_problem
from bridle.base.clock import Clock
from bridle.base.web import Web

if TYPE_CHECKING:
    from bridle.base.web import JudgeAddress, RefuseBody, WebAnswer

    JudgedFetch: TypeAlias = Callable[[str, RefuseBody, JudgeAddress], Awaitable[WebAnswer]]
    """Gets a page: see `bridle.base.web.Web.fetch`. The last argument says where a session must not go."""


def web(env: Mapping[str, str], clock: Clock) -> JudgedFetch:
    """Fetches pages from public addresses only. `env` names proxies and certificates; nothing of it is sent."""
    return Web(env=env, clock=clock, judge_url=url_problem, judge_address=address_problem).fetch
