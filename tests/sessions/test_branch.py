"""A branch begins as its parent was at the end of a turn, and is a session of its own from there on."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridle.base.ids import rewritten
from bridle.engine.conversation import Conversation
from bridle.protocol import events as e
from bridle.protocol.codec import DURABLE_KINDS, decode_payload
from bridle.protocol.errors import UsageError
from bridle.protocol.messages import TextBlock
from bridle.sessions.archive.event_copy import CALL_FIELDS, carried
from bridle.sessions.archive.stored_archive import branch
from effort import examples
from sessions.session_kit import opened, put, raw
from sessions.telling import stories, tell

STORY = [
    ("fix it", [(["On it. "], [("bash", "make test", "ok", 3)]), (["Done."], [])], "end_turn"),
    ("and now the docs", [(["Written."], [])], "end_turn"),
]
MANY = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _told(store, story=STORY, **fields) -> str:
    log = store.create("/work", profile="default", **fields)
    tell(log, story)
    log.close()
    return log.session


def _row(store, session):
    return store.find(session)


@MANY
@given(story=stories, data=st.data())
@pytest.mark.requirement("G34.3")
def test_the_fold_of_a_branch_is_the_fold_of_its_parent_up_to_there(tmp_path_factory, story, data) -> None:
    turn = data.draw(st.integers(1, len(story)))
    with opened(tmp_path_factory.mktemp("s")) as store:
        parent = _told(store, story)
        made = branch(store.shelf, _row(store, parent), turn=turn)
        before = list(store.events(parent))
        ends = [one.id for one in before if one.kind == "TurnEnded"]
        copied = list(store.events(made))
        *prefix, said = copied
        assert [one.id for one in copied] == list(range(1, ends[turn - 1] + 2))
        assert said.event == e.Branched(parent_log=_row(store, parent).log, at=ends[turn - 1])
        assert Conversation.of(prefix).folded() == Conversation.of(before[: ends[turn - 1]]).folded()
        store.verify(made)
        store.verify(parent)
        assert list(store.events(parent)) == before


@pytest.mark.requirement("G5.7")
def test_ids_of_calls_are_rewritten_from_the_new_log_and_nothing_else_is(tmp_path) -> None:
    with opened(tmp_path) as store:
        parent = _told(store)
        made = branch(store.shelf, _row(store, parent))
        log = _row(store, made).log
        for old, new in zip(store.events(parent), store.events(made), strict=False):
            assert (new.kind, new.ts_ms, new.originator, new.turn) == (
                old.kind,
                old.ts_ms,
                old.originator,
                old.turn,
            )
            match old.event, new.event:
                case e.StepEnded(calls=before), e.StepEnded(calls=after):
                    assert [call.call_id for call in after] == [
                        rewritten(call.call_id, log) for call in before
                    ]
                    assert [call.wire_id for call in after] == [call.wire_id for call in before]
                case e.ToolResult() as before, e.ToolResult() as after:
                    assert after == msgspec.structs.replace(before, call_id=rewritten(before.call_id, log))
                case e.SessionCreated(), e.SessionCreated(log=named):
                    assert named == log
                case _:
                    pass


def test_every_kind_that_names_a_call_is_known_to_the_copy() -> None:
    naming = set()
    for kind in DURABLE_KINDS:
        fields = {field.name for field in msgspec.structs.fields(getattr(e, kind))}
        if fields & {"call_id", "calls", "question_id"}:
            naming.add(kind)
    assert naming == set(CALL_FIELDS)


def test_fields_of_a_newer_version_stay_in_what_is_rewritten() -> None:
    old = "call_01JV0000000000000000000000"
    payload = msgspec.json.encode(
        {"call_id": old, "tool": "bash", "outcome": "ok", "content": "x", "later": [1, 2]}
    )
    copied = msgspec.json.decode(carried("ToolResult", payload, "log_01JV0000000000000000000000"))
    assert copied["later"] == [1, 2]
    assert copied["call_id"] != old
    assert decode_payload("ToolResult", msgspec.json.encode(copied))


def test_the_chain_of_a_branch_follows_from_its_parents(tmp_path) -> None:
    with opened(tmp_path) as store:
        parent = _told(store)
        made = branch(store.shelf, _row(store, parent))
    with raw(tmp_path) as connection:
        connection.execute("update logs set origin = null where session = ?", (made,))
    with opened(tmp_path) as store, pytest.raises(Exception, match="does not follow"):
        store.verify(made)


def test_a_branch_knows_its_parent_and_counts_what_it_took_over(tmp_path) -> None:
    with opened(tmp_path) as store:
        parent = _told(store)
        store.rename(parent, "cents")
        made = _row(store, branch(store.shelf, _row(store, parent), turn=1))
        assert (made.branch_of, made.title, made.renamed) == (parent, "cents (branch)", True)
        assert (made.turns, made.stop, made.model, made.usd) == (1, "end_turn", "work:small", 0.5)
        assert store.newest("/work").id == made.id
    with raw(tmp_path) as connection:
        (count,) = connection.execute(
            "select count(*) from tool_call_intents i join tool_call_outcomes o using (call_id) where log_id = ?",
            (made.log,),
        ).fetchone()
        assert count == 1


def test_a_branch_goes_on_by_itself_and_its_parent_too(tmp_path) -> None:
    with opened(tmp_path) as store:
        parent = _told(store)
        made = branch(store.shelf, _row(store, parent))
        for session in (parent, made):
            log = store.open(session)
            put(log, e.InputAccepted(content=(TextBlock(text=f"only in {session}"),)))
            log.close()
            store.verify(session)
        assert list(store.events(parent))[-1].event != list(store.events(made))[-1].event


@pytest.mark.parametrize(("turn", "says"), [(3, "it has turns 1 to 2"), (0, "it has turns 1 to 2")])
def test_only_the_end_of_a_turn_can_be_branched_at(tmp_path, turn, says) -> None:
    with opened(tmp_path) as store:
        parent = _told(store)
        with pytest.raises(UsageError, match=says):
            branch(store.shelf, _row(store, parent), turn=turn)
        assert len(store.list()) == 1


def test_a_turn_that_is_open_cannot_be_branched_at(tmp_path) -> None:
    with opened(tmp_path) as store:
        log = store.create("/work", profile="default")
        put(log, e.SessionCreated(log=log.log, cwd="/work"), e.InputAccepted(content=(TextBlock(text="go"),)))
        put(log, e.TurnStarted(input=2), turn=1)
        log.close()
        with pytest.raises(UsageError, match="No turn of this session has ended"):
            branch(store.shelf, _row(store, log.session))
