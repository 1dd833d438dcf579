"""A token is given for a code that a person reads, and never for more than whoever asks has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.test_people_together import Stream, refusal, room_of
from bridle.base.ids import Ids
from bridle.conformance.fake_clock import FakeClock
from bridle.control.code_surfaces import CodeSurfaces
from bridle.control.minting import CODE_S, Minting, MintRequest, Surfaces, claims_for
from bridle.control.token_files import TokenFile, open_tokens
from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol.errors import CommandRefused
from bridle.protocol.questions import TokenAnswer, TokenQuestion
from bridle.protocol.tokens import APPROVE, Claims

S, OTHER = "sess_1", "sess_2"


class Desk:
    """Minting with a surface that a person looks at."""

    def __init__(self, state: str, channel: Any = "terminal") -> None:
        self.clock = FakeClock()
        ids = Ids(self.clock.now_ms, os.urandom)
        self.tokens = open_tokens(
            TokenFile(state, self.clock), clock=self.clock, ids=ids, machine_key=None, hear=lambda *_: None
        )
        self.boss = self.tokens.read(self.tokens.issue_bootstrap())
        self.shown: list[Any] = []
        self.hidden: list[str] = []
        self.heard: list[str] = []

        async def show(code: Any) -> Any:
            self.shown.append(code)
            return channel

        self.minting = Minting(
            self.tokens,
            clock=self.clock,
            ids=ids,
            random_bytes=os.urandom,
            surfaces=Surfaces(show=show, hide=self.hidden.append),
            hear=lambda what, _data: self.heard.append(what),
        )


def wanted(**fields: Any) -> MintRequest:
    return MintRequest(**{"identity_class": "human", "sessions": (S,), **fields})


def reason_of(action: Any) -> str:
    with pytest.raises(CommandRefused) as refused:
        action()
    return refused.value.reason


@pytest.mark.requirement("G22.7", "P18")
async def test_whoever_brings_the_code_in_time_has_the_token(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path))
    pending = await desk.minting.begin(desk.boss, wanted(commands=APPROVE, name="Ana", life_s=60))
    (shown,) = desk.shown
    assert (pending.channel, len(shown.code), shown.code.isdigit()) == ("terminal", 6, True)
    token = desk.minting.confirm(desk.boss, pending.mint_id, shown.code)
    claims = desk.tokens.read(token)
    assert (claims.sessions, claims.commands, claims.name, claims.can_mint) == ((S,), APPROVE, "Ana", False)
    assert desk.hidden == [pending.mint_id]
    assert desk.heard == ["asked", "minted"]
    again = reason_of(lambda: desk.minting.confirm(desk.boss, pending.mint_id, shown.code))
    assert again == "NoSuchMint", "a code counts once"
    (issued,) = desk.tokens.issued
    assert (issued.claims, issued.by) == (claims, desk.boss.jti)


@pytest.mark.requirement("P18")
async def test_three_wrong_codes_void_a_request_and_so_does_a_minute(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path))
    pending = await desk.minting.begin(desk.boss, wanted())
    code = desk.shown[-1].code
    wrong = f"{(int(code) + 1) % 1_000_000:06}"
    for _ in range(3):
        assert reason_of(lambda: desk.minting.confirm(desk.boss, pending.mint_id, wrong)) == "WrongCode"
    assert reason_of(lambda: desk.minting.confirm(desk.boss, pending.mint_id, code)) == "NoSuchMint"
    assert desk.tokens.refusals["WrongCode"] == 3
    late = await desk.minting.begin(desk.boss, wanted())
    await desk.clock.advance(CODE_S)
    gone = reason_of(lambda: desk.minting.confirm(desk.boss, late.mint_id, desk.shown[-1].code))
    assert gone == "NoSuchMint"
    mine = await desk.minting.begin(desk.boss, wanted())
    thief = desk.tokens.new_claims(identity_class="human", can_mint=True)
    stolen = reason_of(lambda: desk.minting.confirm(thief, mine.mint_id, desk.shown[-1].code))
    assert stolen == "NoSuchMint", "the code is for whoever asked"
    for _ in range(2):
        await desk.minting.begin(desk.boss, wanted())
    assert (await refusal(desk.minting.begin(desk.boss, wanted()))).reason == "MintRefused"


@pytest.mark.requirement("P18")
async def test_codes_are_not_guessed_by_asking_again_and_again(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path))
    for _ in range(3):
        pending = await desk.minting.begin(desk.boss, wanted())
        wrong = f"{(int(desk.shown[-1].code) + 1) % 1_000_000:06}"
        for _ in range(3):
            with pytest.raises(CommandRefused, match="code"):
                desk.minting.confirm(desk.boss, pending.mint_id, wrong)
    assert desk.hidden == [shown.mint_id for shown in desk.shown], "nobody is shown a code that is void"
    assert (await refusal(desk.minting.begin(desk.boss, wanted()))).reason == "MintRefused"
    await desk.clock.advance(CODE_S)
    await desk.minting.begin(desk.boss, wanted())
    assert len(desk.hidden) == 3


@pytest.mark.requirement("G22.8")
async def test_without_a_surface_nothing_is_minted(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path), channel=None)
    refused = await refusal(desk.minting.begin(desk.boss, wanted()))
    assert refused.message == (
        "Token issuance requires an interactive confirmation channel. For headless/CI: pre-provision a token file. "
        "For service managers: launch with --auth-channel notify."
    )
    assert reason_of(lambda: desk.minting.confirm(desk.boss, "mint_x", desk.shown[0].code)) == "NoSuchMint"


MINTER: dict[str, Any] = {"identity_class": "human", "sessions": (S,), "can_mint": True}


@pytest.mark.requirement("X11", "G22.1")
@pytest.mark.parametrize(
    ("minter", "request_"),
    [
        ({**MINTER, "can_mint": False}, {}),
        ({**MINTER, "identity_class": "agent"}, {"identity_class": "agent"}),
        (MINTER, {"sessions": (S, OTHER)}),
        ({**MINTER, "sessions": ()}, {}),
        ({**MINTER, "commands": ("SendInput",)}, {"commands": ("SendInput", "SetMode")}),
        (MINTER, {"life_s": 7200}),
        (MINTER, {"life_s": 0}),
        (MINTER, {"nbf": 2**40}),
        (MINTER, {"can_mint": True, "identity_class": "agent"}),
        ({**MINTER, "name": "Ana"}, {"name": "Ben"}),
        (MINTER, {"name": "Terminal"}),
        (MINTER, {"name": "a" * 65}),
        (MINTER, {"name": "A\u202ena"}),
    ],
)
def test_nobody_mints_more_than_they_have(tmp_path: Path, minter: Any, request_: Any) -> None:
    desk = Desk(str(tmp_path))
    by = desk.tokens.new_claims(life_s=3600, **minter)
    with pytest.raises(CommandRefused) as refused:
        claims_for(desk.tokens, by, wanted(**{"life_s": 60, **request_}))
    assert refused.value.reason == "MintRefused"


kinds = st.lists(st.sampled_from(["SendInput", "SetMode", "AttachSession"]), unique=True).map(tuple)
sessions = st.lists(st.sampled_from([S, OTHER]), unique=True).map(tuple)
maybe = st.one_of(st.just(msgspec.UNSET), kinds)


@given(
    st.builds(
        lambda **fields: fields,
        sessions=st.one_of(st.just(msgspec.UNSET), sessions),
        commands=maybe,
        can_mint=st.booleans(),
        identity_class=st.sampled_from(["human", "agent"]),
        name=st.sampled_from(["", "Ana"]),
    ),
    st.builds(
        MintRequest,
        identity_class=st.sampled_from(["human", "agent"]),
        sessions=sessions,
        commands=maybe,
        life_s=st.integers(1, 7200),
        can_mint=st.booleans(),
        name=st.sampled_from(["", "Ana", "Ben"]),
    ),
)
def test_what_is_minted_is_never_wider_than_its_minter(minter: dict[str, Any], request_: MintRequest) -> None:
    clock = FakeClock()
    register = TokenFile("/nonexistent/state", clock)
    from bridle.control.capability_tokens import Tokens

    tokens = Tokens([bytes(32)], clock=clock, ids=Ids(clock.now_ms, os.urandom), register=register)
    by = tokens.new_claims(life_s=3600, **minter)
    try:
        made: Claims = claims_for(tokens, by, request_)
    except CommandRefused:
        return
    assert by.can_mint
    assert by.identity_class == "human"
    assert made.sessions is not msgspec.UNSET
    assert all(by.covers_session(one) for one in made.sessions)
    for kind in ("SendInput", "SetMode", "AttachSession", "CreateSession"):
        assert by.covers_command(kind) or not made.covers_command(kind)
    assert made.exp <= by.exp
    assert not by.name or made.name == by.name


@pytest.mark.requirement("G22.8", "G22.7")
async def test_a_person_who_is_here_is_shown_the_code_alone_and_may_refuse(tmp_path: Path) -> None:
    written: list[str] = []
    surfaces = CodeSurfaces(terminal=lambda text: bool(written.append(text) or True), desktop=lambda _: False)
    async with room_of(tmp_path, code_surfaces=surfaces) as room:
        owner = room.engine.connect(name="terminal", answers=True)
        await room.open(owner)
        boss = room.engine.access.tokens.read(room.engine.access.tokens.issue_bootstrap())
        request = wanted(sessions=(room.session,), name="Ana")
        alone = await room.engine.access.minting.begin(boss, request)
        assert alone.channel == "terminal", "nobody follows the session yet"
        assert "Somebody asks for a token for Ana. Its code: " in written[0]

        outer = room.person(identity_class="agent")
        await outer.send(c.AttachSession(session=room.session))
        sees, outer_sees = Stream(owner, room.session), Stream(outer, room.session)
        await outer_sees.gets(e.SessionCreated)
        await sees.gets(e.SessionCreated)
        pending = await room.engine.access.minting.begin(boss, request)
        assert pending.channel == "client"
        asked = await sees.gets(e.QuestionAsked)
        question = asked.event.question
        assert isinstance(question, TokenQuestion)
        assert (asked.id, asked.event.question_id, question.name) == (None, pending.mint_id, "Ana")
        token = room.engine.access.minting.confirm(boss, pending.mint_id, question.code)
        assert room.engine.access.tokens.read(token).name == "Ana"
        closed = await sees.gets(e.QuestionAnswered)
        assert closed.event.question_id == pending.mint_id

        second = await room.engine.access.minting.begin(boss, request)
        sees.events.clear()
        shown = await sees.gets(e.QuestionAsked)
        no = c.AnswerQuestion(session=room.session, question_id=second.mint_id, answer=TokenAnswer())
        assert (await refusal(outer.send(no))).reason == "SelfApproval"
        await owner.send(no)
        code = shown.event.question.code
        void = reason_of(lambda: room.engine.access.minting.confirm(boss, second.mint_id, code))
        assert void == "NoSuchMint"

        assert not [one for one in outer_sees.events if "Question" in one.kind], "an agent sees no code"
        stored = [one async for one in room.engine.sessions.events(room.session)]
        assert not [one for one in stored if "Question" in one.kind], "nothing of it is kept"
        said = [entry["what"] for entry in room.engine.access.audit.entries()]
        assert said == ["asked", "asked", "minted", "asked", "refused", "refused"]
        await sees.leave()
        await outer_sees.leave()


@pytest.mark.parametrize(
    ("minter", "request_"),
    [
        ({}, {"life_s": 1}),
        ({"exp": 600}, {"life_s": 600}),
        ({"commands": ("SendInput", "FollowEvents")}, {"commands": ("SendInput",)}),
        ({"commands": ("SendInput",)}, {}),
        ({"name": "Ana"}, {"name": "ANA"}),
        ({}, {"name": "x" * 64}),
    ],
)
def test_whatever_a_minter_has_it_may_give(tmp_path: Path, minter: Any, request_: Any) -> None:
    desk = Desk(str(tmp_path))
    life_s = minter.pop("exp", 3600)
    by = desk.tokens.new_claims(life_s=life_s, identity_class="human", sessions=(S,), can_mint=True, **minter)
    made = claims_for(desk.tokens, by, wanted(**{"life_s": 60, **request_}))
    assert made.exp <= by.exp
    assert made.commands == request_.get("commands", by.commands)
    assert made.name == minter.get("name", request_.get("name", ""))


@pytest.mark.parametrize(
    "request_",
    [
        {"commands": ("SendInput", "EndSession")},
        {"commands": ("EndSession",)},
        {"life_s": 601},
        {"life_s": 0},
        {"nbf": 2**40},
        {"name": "x" * 65},
        {"name": "Terminal"},
    ],
)
def test_and_nothing_beyond_it(tmp_path: Path, request_: Any) -> None:
    desk = Desk(str(tmp_path))
    by = desk.tokens.new_claims(
        life_s=600, identity_class="human", sessions=(S,), commands=("SendInput",), can_mint=True
    )
    with pytest.raises(CommandRefused) as refused:
        claims_for(desk.tokens, by, wanted(**{"life_s": 60, **request_}))
    assert refused.value.reason == "MintRefused"


def test_a_token_that_would_begin_as_it_ends_is_none(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path))
    now_s = desk.clock.now_ms() // 1000
    with pytest.raises(CommandRefused):
        claims_for(desk.tokens, desk.boss, wanted(life_s=60, nbf=now_s + 60))
    assert claims_for(desk.tokens, desk.boss, wanted(life_s=60, nbf=now_s + 59)).nbf == now_s + 59


async def test_a_request_is_refused_once_and_one_that_nobody_made_not_at_all(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path))
    assert desk.minting.refuse("mint_none") is False
    pending = await desk.minting.begin(desk.boss, wanted())
    assert [desk.minting.refuse(pending.mint_id) for _ in range(2)] == [True, False]


def test_who_may_not_mint_revokes_nothing_but_itself_whatever_is_said_of_it(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path))
    for claims in ({"identity_class": "agent", "can_mint": True}, {"identity_class": "human"}):
        by = desk.tokens.new_claims(sessions=(S,), **claims)
        child = desk.tokens.new_claims(identity_class="human", sessions=(S,))
        desk.tokens.issue(child, by=by.jti)
        assert not desk.minting.may_revoke(by, child.jti)
        assert desk.minting.may_revoke(by, by.jti)
    for claims in ({"identity_class": "agent", "can_mint": True}, {"identity_class": "human"}):
        assert not desk.minting.may_revoke(desk.tokens.new_claims(**claims), child.jti), "bound to nothing"
