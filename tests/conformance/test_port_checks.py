"""Our own implementations pass the checks we ship."""

import os

import pytest

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.conformance.port_checks import check_connection, check_session_log
from bridle.protocol.commands import CreateSession
from bridle.providers.script import say
from bridle.sessions.store import SessionStore


@pytest.mark.requirement("G5.6")
async def test_the_encrypted_log_is_a_session_log(tmp_path):
    clock = SystemClock()
    store = SessionStore(str(tmp_path), ids=Ids(clock.now_ms, os.urandom), clock=clock)
    log = store.create(str(tmp_path), profile="default")
    await check_session_log(log, log.session)
    log.close()
    store.close()


@pytest.mark.requirement("G1.3", "G5.5", "G20.1", "G20.5", "G26.2")
async def test_the_in_process_connection_is_a_connection(tmp_path):
    async with harness(scripted(say("One."), say("Two."))) as session:

        async def connect():
            return session.engine.connect(name="check", answers=False)

        await check_connection(connect, CreateSession(cwd=str(tmp_path), model="demo:check"))
