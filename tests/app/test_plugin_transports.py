"""A plugin may bring a way to talk with an engine that listens, behind its guard and with the rights of a token."""

import json
from pathlib import Path

import pytest

from app.test_serving import fetch, get
from bridle.base.net.engine_place import connected_socket
from bridle.protocol.errors import BridleError
from bridle.protocol.queries import ListSessions
from listening_kit import listening


class Counting:
    """A transport that answers with the number of sessions whoever asks may see."""

    name = "counting"

    def __init__(self, make=None):
        self._make = make or self._app

    def register(self, registrar):
        registrar.set_transport(self._make)

    def _app(self, door):
        async def app(scope, _receive, send):
            if scope["path"].endswith("/broken"):
                raise RuntimeError("SECRET DETAIL")
            connection = door.connect(scope)
            try:
                listed = await connection.ask(ListSessions())
            finally:
                await connection.close()
            body = json.dumps({"path": scope["path"], "sessions": len(listed.sessions)}).encode()
            headers = [(b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        return app


async def asked(here, path: str, token: str) -> tuple[int, bytes]:
    return await fetch(connected_socket(here.place.socket), get(path, token))


@pytest.mark.requirement("G10.1")
async def test_a_transport_of_a_plugin_is_below_its_own_path_and_behind_the_guard(tmp_path: Path) -> None:
    async with listening(tmp_path, plugins=[Counting()]) as here:
        status, body = await asked(here, "/v1/plugins/counting", here.token)
        assert (status, json.loads(body)) == (200, {"path": "/v1/plugins/counting", "sessions": 0})
        status, body = await asked(here, "/v1/plugins/counting/deeper/still", here.token)
        assert (status, json.loads(body)["path"]) == (200, "/v1/plugins/counting/deeper/still")
        assert (await asked(here, "/v1/plugins/counting", ""))[0] == 401, "nothing answers without a token"
        assert (await asked(here, "/v1/plugins/other", here.token))[0] == 404
        assert (await asked(here, "/v1/plugins/countings", here.token))[0] == 404


async def test_what_breaks_in_a_transport_tells_nobody_its_details_and_ends_nothing(tmp_path: Path) -> None:
    async with listening(tmp_path, plugins=[Counting()]) as here:
        status, body = await asked(here, "/v1/plugins/counting/broken", here.token)
        assert (status, body) == (500, b"")
        assert (await asked(here, "/v1/plugins/counting", here.token))[0] == 200


async def test_a_transport_that_cannot_be_made_keeps_the_engine_from_listening(tmp_path: Path) -> None:
    def make(_door):
        raise OSError("no port")

    with pytest.raises(BridleError) as refused:
        async with listening(tmp_path, plugins=[Counting(make)]):
            raise AssertionError
    assert refused.value.reason == "BadPlugin"
    assert "its transport failed (OSError: no port)" in refused.value.message


async def test_a_plugin_has_one_transport(tmp_path: Path) -> None:
    class Twice(Counting):
        def register(self, registrar):
            super().register(registrar)
            super().register(registrar)

    with pytest.raises(BridleError) as refused:
        async with listening(tmp_path, plugins=[Twice()]):
            raise AssertionError
    assert "a plugin has one transport" in refused.value.message
