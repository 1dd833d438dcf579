"""What was exported comes in again as the same conversation; a file from elsewhere is checked and gives no rights."""

import json

import msgspec
import pytest
from hypothesis import HealthCheck, assume, example, given, settings

from bridle.base.secrets.redact import redact
from bridle.engine.conversation import Conversation
from bridle.protocol import events as e
from bridle.protocol.codec import encode_envelope, payload_of
from bridle.protocol.errors import UsageError
from bridle.sessions.archive.export import clean, jsonl
from bridle.sessions.archive.import_session import import_lines
from effort import examples
from sessions.session_kit import CLIENT, envelope, opened, put
from sessions.telling import stories, tell

STORY = [("fix it", [(["On it."], [("bash", "make test", "ok", 0)])], "end_turn")]
MANY = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ELSEWHERE = "sess_01JV0000000000000000000000"


def _exported(folder, story=STORY, **fields) -> tuple[str, list[bytes]]:
    with opened(folder) as store:
        log = store.create("/work", profile="default")
        tell(log, story, **fields)
        log.close()
        return log.session, list(jsonl(store.records(log.session)))


def _line(number: int, event: e.AnyEvent, **fields) -> bytes:
    values = {
        "id": number,
        "ts_ms": 1_700_000_000_000 + number,
        "originator": CLIENT,
        "session": ELSEWHERE,
        **fields,
    }
    return encode_envelope(e.Envelope(kind=type(event).__name__, event=event, **values)) + b"\n"


def _imported(folder, lines, cwd="/work") -> str:
    with opened(folder) as store:
        return import_lines(store.shelf, lines, cwd=cwd, profile="default")


@MANY
@given(story=stories)
@example(story=[("0", [([], [("bash", "fo1_", "ok", 1)])], "end_turn")])
def test_an_import_of_an_export_folds_to_the_same_conversation(tmp_path_factory, story) -> None:
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    session, lines = _exported(here, story)
    with opened(here) as store:
        before = list(store.events(session))
    told = [payload_of(one).decode() for one in before]
    assume(
        all(redact(text) == text for text in told)
    )  # a session masks its texts, which this one was told as they are
    made = _imported(there, lines)
    with opened(there) as store:
        after = list(store.events(made))
        store.verify(made)
        again = list(jsonl(store.records(made)))
    assert Conversation.of(after).folded() == Conversation.of(before).folded()
    assert [(one.id, one.kind, one.ts_ms, one.turn) for one in after] == [
        (one.id, one.kind, one.ts_ms, one.turn) for one in before
    ]
    assert len(again) == len(lines)


def test_an_imported_session_is_marked_and_found_by_the_id_it_had(tmp_path) -> None:
    session, lines = _exported(tmp_path / "here")
    made = _imported(tmp_path / "there", lines)
    with opened(tmp_path / "there") as store:
        row = store.find(session)
        assert (row.id, row.imported_ms is not None, row.turns, row.title) == (made, True, 1, "fix it")
        assert made != session


def test_an_import_beside_its_own_original_takes_nothing_from_it(tmp_path) -> None:
    session, lines = _exported(tmp_path)
    made = _imported(tmp_path, lines)
    with opened(tmp_path) as store:
        assert store.find(session).id == session
        assert {row.id for row in store.list()} == {session, made}
        calls = [
            {one.event.call_id for one in store.events(each) if isinstance(one.event, e.ToolResult)}
            for each in (session, made)
        ]
        assert not calls[0] & calls[1]


@pytest.mark.parametrize("mode", ["auto", "yolo"])
def test_a_file_brings_no_looser_mode_and_no_other_folder(tmp_path, mode) -> None:
    lines = [
        _line(1, e.SessionCreated(log="log_01JV0000000000000000000000", cwd="/home/somebody", mode=mode)),
        _line(2, e.ModeChanged(mode=mode)),
    ]
    made = _imported(tmp_path, lines, cwd="/projects/here")
    with opened(tmp_path) as store:
        conversation = Conversation.of(store.events(made))
        assert (conversation.mode, conversation.cwd, store.find(made).cwd) == (
            "default",
            "/projects/here",
            "/projects/here",
        )


@pytest.mark.parametrize("mode", ["auto", "yolo"])
def test_a_session_that_began_loose_does_not_begin_so_here(tmp_path, mode) -> None:
    made = _imported(tmp_path, [_line(1, e.SessionCreated(log="l", cwd="/x", mode=mode))])
    with opened(tmp_path) as store:
        assert Conversation.of(store.events(made)).mode == "default"


def test_a_stricter_mode_stays(tmp_path) -> None:
    made = _imported(tmp_path, [_line(1, e.SessionCreated(log="l", cwd="/x", mode="plan"))])
    with opened(tmp_path) as store:
        assert Conversation.of(store.events(made)).mode == "plan"


def test_secrets_in_a_file_do_not_reach_the_log(tmp_path) -> None:
    secret = "ghp_" + "a1B2" * 10
    lines = [
        _line(1, e.Notice(reason="x", message=f"the token is {secret}")),
        _line(2, e.Notice(reason="x", message="y"))
        .replace(b'"Notice"', b'"FromLater"')
        .replace(b'"y"', f'"{secret}"'.encode()),
    ]
    made = _imported(tmp_path, lines)
    with opened(tmp_path) as store:
        stored = b"".join(record.payload for record in store.records(made)).decode()
    assert secret not in stored
    assert stored.count("«redacted:") == 2


GOOD = _line(1, e.Notice(reason="x", message="y"))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "There is no event"),
        ([b"\n", b"   \n"], "There is no event"),
        ([b"not json\n"], "Line 1 is not an event"),
        ([b"[]\n"], "Line 1 is not an event"),
        ([b"\xff\xfe\n"], "Line 1 is not an event"),
        ([b"[" * 100_000], "Line 1 is not an event"),
        ([GOOD, GOOD], "its id is 1 and not 2"),
        ([_line(2, e.Notice(reason="x", message="y"))], "its id is 2 and not 1"),
        ([GOOD, _line(2, e.Cancelled(by=""), session="sess_01JV0000000000000000000001")], "another session"),
        ([_line(1, e.Cancelled(by=""), session="no id")], "another session"),
        ([_line(1, e.ToolCallProgress(call_id="x", text="y"))], "never stored"),
        ([_line(1, e.Cancelled(by=""), turn=-4)], "its turn is impossible"),
        ([_line(1, e.TurnStarted(input=7), turn=1)], "does not fit"),
        ([GOOD.replace(b'"y"', b"7")], "Line 1 is not an event"),
        ([GOOD.replace(b"2023-", b"20230-")], "Line 1 is not an event"),
    ],
)
def test_what_is_no_export_is_refused_by_its_line_and_nothing_is_stored(tmp_path, lines, says) -> None:
    with opened(tmp_path) as store, pytest.raises(UsageError, match=says):
        import_lines(store.shelf, lines, cwd="/work", profile="default")
    assert not (tmp_path / "sessions.db").exists()


def test_an_unknown_kind_comes_in_as_it_is(tmp_path) -> None:
    line = json.dumps({**json.loads(GOOD), "kind": "FromLater", "payload": {"a": [1]}}).encode()
    made = _imported(tmp_path, [line])
    with opened(tmp_path) as store:
        (record,) = store.records(made)
    assert (record.envelope.kind, msgspec.json.decode(record.payload)) == ("FromLater", {"a": [1]})


def test_an_export_is_redacted_again_and_otherwise_keeps_its_bytes(tmp_path) -> None:
    secret = "ghp_" + "a1B2" * 10
    plain = msgspec.json.encode({"reason": "x", "message": "y", "later": 1.5})
    with opened(tmp_path) as store:
        log = store.create("/work", profile="default")
        put(log, e.Notice(reason="x", message=f"the token is {secret}"))
        log.append(envelope(log, e.Notice(reason="x", message="y")), plain)
        deep = {"reason": "x", "message": "y", "later": [{secret: 1}, [f"in a list: {secret}"]]}
        log.append(envelope(log, e.Notice(reason="x", message="y")), msgspec.json.encode(deep))
        log.close()
        first, second, third = jsonl(store.records(log.session))
        (event, *_) = clean(store.records(log.session))
    assert secret.encode() not in first + third
    assert third.decode().count("«redacted:") == 2
    assert "«redacted:" in first.decode()
    assert plain in second
    assert "«redacted:" in event.event.message
