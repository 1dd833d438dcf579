"""Words are found where people and models said them, in every session, without being read as anything but words."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bridle.protocol import events as e
from bridle.protocol.messages import TextBlock
from bridle.sessions.archive.stored_archive import (
    CLOSING,
    OPENING,
    PAGE_EVENTS,
    last_answers,
    match_of,
    said_in,
    search,
)
from effort import examples
from sessions.session_kit import opened, put, raw
from sessions.telling import stories, tell

STORY = [
    (
        "why do totals differ",
        [(["Prices are ", "floats; use whole cents."], [("bash", "make hidden", "ok", 0)])],
        "end_turn",
    ),
    ("mend the rounding", [(["Done in cart.py."], [])], "end_turn"),
]
MANY = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _told(store, story=STORY) -> str:
    log = store.create("/work", profile="default")
    tell(log, story)
    log.close()
    return log.session


def _found(store, words: str) -> list[tuple[str, int | None, str]]:
    return [(hit.who, hit.turn, hit.excerpt) for hit in search(store.shelf, words, limit=20)]


def test_what_was_said_is_found_with_who_said_it_and_in_which_turn(tmp_path) -> None:
    with opened(tmp_path) as store:
        session = _told(store)
        marked = f"Prices are floats; use whole {OPENING}cents{CLOSING}."
        assert _found(store, "cents") == [("model", 1, marked)]
        assert [(who, turn) for who, turn, _ in _found(store, "rounding")] == [("you", None)]
        assert search(store.shelf, "cents", limit=1)[0].session == session


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        ("TOTALS", 1),
        ("tot", 1),
        ("to", 0),
        ("floats cents", 1),
        ("floats rounding", 0),
        ('"whole cents"', 1),
        ('"cents whole"', 0),
        ("hidden", 0),
        ("", 0),
        ('"', 0),
    ],
)
def test_every_word_must_be_there_and_longer_ones_match_beginnings(tmp_path, words, hits) -> None:
    with opened(tmp_path) as store:
        _told(store)
        assert len(_found(store, words)) == hits


@MANY
@given(st.text())
@example('a" OR said:"b')
@example("NEAR(a b)")
@example("a NOT b ^c -d")
@example('*""*')
@example("text:x")
def test_no_words_are_a_query_language(tmp_path_factory, words) -> None:
    with opened(tmp_path_factory.mktemp("s")) as store:
        _told(store, [("x", [(["y"], [])], "end_turn")])
        search(store.shelf, words, limit=5)


@MANY
@given(story=stories)
def test_nothing_is_taken_in_twice_or_left_out(tmp_path_factory, story) -> None:
    folder = tmp_path_factory.mktemp("s")
    with opened(folder) as store:
        session = _told(store, story)
        for _ in range(2):
            search(store.shelf, "anything", limit=1)
        expected = [(said.envelope.id, said.who, said.text) for said in said_in(store.events(session))]
    with raw(folder) as connection:
        assert connection.execute("select event, who, text from said order by key").fetchall() == expected


def test_an_answer_is_found_when_it_is_complete_and_a_failed_attempt_never(tmp_path) -> None:
    with opened(tmp_path) as store:
        log = store.create("/work", profile="default")
        put(log, e.InputAccepted(content=(TextBlock(text="go"),)))
        put(log, e.TurnStarted(input=1), e.StepStarted(step=1, provider="p", model="m"), turn=1)
        put(log, e.TextDelta(text="aborted words"), turn=1)
        put(log, e.StepFailed(step=1, attempt=1, reason="Overloaded", message="m", retry_in_ms=1), turn=1)
        put(log, e.TextDelta(text="second "), turn=1)
        log.close()
        assert _found(store, "second") == _found(store, "aborted") == []
        log = store.open(log.session)
        put(log, e.TextDelta(text="attempt"), e.StepEnded(step=1, stop="end_turn", text_sha256=""), turn=1)
        log.close()
        assert _found(store, '"second attempt"') == [("model", 1, f"{OPENING}second attempt{CLOSING}")]
        assert _found(store, "aborted") == []


def test_a_page_that_ends_inside_an_answer_loses_none_of_it(tmp_path) -> None:
    with opened(tmp_path) as store:
        _told(
            store, [("a", [([f"part{number} " for number in range(PAGE_EVENTS - 10)], [])], "end_turn")] * 2
        )
        assert len(_found(store, f"part0 part4 part{PAGE_EVENTS - 11}")) == 2


def test_the_last_answer_of_each_session_is_known_after_a_search(tmp_path) -> None:
    with opened(tmp_path) as store:
        session = _told(store)
        search(store.shelf, "x", limit=1)
        assert last_answers(store.shelf, [session]) == {session: "Done in cart.py."}


def test_whole_words_come_before_beginnings_and_what_was_said_last_comes_first(tmp_path) -> None:
    with opened(tmp_path) as store:
        said = ["one cart", "two cartons", "three cart", "four cartons", "five"]
        _told(store, [(words, [], "end_turn") for words in said])
        hits = [hit.excerpt.split()[0] for hit in search(store.shelf, "cart", limit=20)]
        assert hits == ["three", "one", "four", "two"]
        assert [hit.excerpt.split()[0] for hit in search(store.shelf, "cart", limit=3)] == hits[:3]


def _steps(store, look) -> int:
    """How many steps the database takes to answer: the same every time, on every machine."""
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    look()
    store.shelf.reader().set_progress_handler(count, 1)
    look()
    store.shelf.reader().set_progress_handler(None)
    return taken


@pytest.mark.parametrize("look", ["search", "last answers"])
def test_however_much_was_said_what_people_wait_for_takes_as_long(tmp_path, look) -> None:
    looks = {
        "search": lambda store: search(store.shelf, "cents", limit=10),
        "last answers": lambda store: last_answers(store.shelf, [row.id for row in store.list()]),
    }
    steps: list[int] = []
    for times in (20, 400):
        with opened(tmp_path / str(times)) as store:
            _told(store, STORY * times)
            search(store.shelf, "x", limit=1)
            steps.append(_steps(store, lambda store=store: looks[look](store)))
    less, more = steps
    assert more < 1.3 * less


def test_searching_where_nothing_is_stored_makes_nothing(tmp_path) -> None:
    with opened(tmp_path) as store:
        assert search(store.shelf, "anything", limit=5) == []
    assert not (tmp_path / "sessions.db").exists()


@given(st.text())
def test_a_query_is_made_of_quoted_terms_only(words) -> None:
    query = match_of(words)
    assert query.count('"') % 2 == 0
    assert all(part.strip(" *") == "" for part in query.split('"')[::2])
