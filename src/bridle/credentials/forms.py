"""The door to authorization servers: forms over the connections that models are asked on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from bridle.base.net.http import HttpConnections, HttpFault, Timeouts
from bridle.credentials.oauth import FormAnswer, Post
from bridle.protocol.errors import CredentialError

MAX_ANSWER_BYTES = 256 * 1024


def form_post(connections: Callable[[], HttpConnections]) -> Post:
    """A `Post` over these connections. Redirects are not followed: a form with a secret goes where it was sent."""

    async def post(address: str, form: Mapping[str, str], more: Mapping[str, str] = {}, /) -> FormAnswer:
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json", **more}
        timeouts = Timeouts(connect_s=10, write_s=10, first_byte_s=30, idle_s=30)
        try:
            body = urlencode(form).encode()
            async with await connections().post_stream(
                address, headers=headers, body=body, timeouts=timeouts
            ) as response:
                return FormAnswer(response.status, await response.read(MAX_ANSWER_BYTES))
        except HttpFault as fault:
            raise CredentialError(
                "ProviderUnreachable", address=fault.origin, problem=fault.problem, hint=""
            ) from None

    return post
