"""`bridle sessions` and going on with one: what was done is found again, shown, exported and continued."""

import json
import re

import pytest

from bridle.clients.interaction.cells import width_of
from bridle.protocol.codec import decode_envelope
from bridle.protocol.events import SessionCreated
from bridle.sessions.log.database import Database
from bridle.sessions.log.migrations import MIGRATIONS
from cli_kit import Place, kinds

goes_on = pytest.mark.through_engine(
    "a session is found and gone on with by the engine; the other tests read what is stored, which is the same"
)

TALK = "say one\n---\nsay two\n---\nsay three\n---\nsay four\n"


def test_a_folder_lists_its_own_sessions_and_all_lists_every_one(place: Place) -> None:
    elsewhere = place.work / "elsewhere"
    elsewhere.mkdir()
    place.bridle("run", "-m", "demo", "the first\nof two lines")
    place.bridle("run", "-m", "demo", "the second", cwd=elsewhere)
    second, first = place.sessions()

    here = place.bridle("sessions")
    assert here == place.bridle("sessions", "list")
    assert (here.code, here.err) == (0, "")
    (line,) = here.out.splitlines()
    assert re.fullmatch(r"\w+   the first.*of two lines +just now +1 turn", line)
    assert place.bridle("sessions", "show", line.split()[0]).out.startswith(first.id)
    everywhere = place.bridle("sessions", "list", "--all").out.splitlines()
    ids = [line.split()[0] for line in everywhere]
    assert [row.id[5 : 5 + len(short)] for row, short in zip((second, first), ids, strict=True)] == ids
    assert everywhere[0].endswith("work/elsewhere")


def test_a_list_of_sessions_fits_80_columns_and_its_short_ids_name_them(place: Place) -> None:
    deep = place.work / ("a-folder-with-a-long-name/" * 4)
    deep.mkdir(parents=True)
    title = "what people say is sometimes long, 有时候很宽, and goes on and on for a while"
    place.bridle("run", "-m", "demo", title, cwd=deep)
    parent = place.only_session()
    place.bridle("sessions", "branch", parent)
    place.bridle("run", "-m", "demo", "short")
    for words in (("sessions",), ("sessions", "--all")):
        for line in place.bridle(*words).out.splitlines():
            assert width_of(line) <= 80, line
    shorts = [line.split()[0] for line in place.bridle("sessions", "--all").out.splitlines()]
    found = [place.bridle("sessions", "show", one, "--json").result["session"]["id"] for one in shorts]
    assert found == [row.id for row in place.sessions()]
    assert "branch of " in place.bridle("sessions", cwd=deep).out
    assert all(width_of(line) <= 80 for line in place.bridle("sessions", cwd=deep).out.splitlines())


def test_a_list_for_programs_has_the_same_sessions(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hello there")
    (row,) = json.loads(place.bridle("sessions", "list", "--json").out)
    assert (row["id"], row["title"], row["turns"]) == (place.only_session(), "hello there", 1)
    assert (row["cwd"], row["model"], row["stop"]) == (str(place.work), "demo:hello", "end_turn")


def test_a_long_list_comes_in_pages_and_says_how_many_more_there_are(place: Place) -> None:
    elsewhere = place.work / "elsewhere"
    elsewhere.mkdir()
    for words in ("one", "two", "three", "four"):
        place.bridle("run", "-m", "demo", words, cwd=elsewhere if words == "two" else None)
    titles = [row.title for row in place.sessions()]

    first = place.bridle("sessions", "list", "--all", "--limit", "2").out.splitlines()
    after = re.fullmatch(r"… 2 more: --after (\S+), or --limit N", first[-1])
    assert after, first
    second = place.bridle("sessions", "list", "--all", "--limit", "2", "--after", after[1]).out.splitlines()
    assert [line.split()[1] for line in (*first[:-1], *second)] == titles == ["four", "three", "two", "one"]
    here = place.bridle("sessions", "list", "--limit", "2", "--after", after[1]).out.splitlines()
    assert [line.split()[1] for line in here] == ["one"], "the folder still counts"

    whole = json.loads(place.bridle("sessions", "list", "--all", "--json").out)
    assert [row["title"] for row in whole] == titles
    page = json.loads(
        place.bridle("sessions", "list", "--all", "--json", "--limit", "2", "--after", whole[0]["after"]).out
    )
    assert page == whole[1:3]
    last = place.bridle("sessions", "list", "--all", "--after", whole[-1]["after"])
    assert (last.code, last.out) == (0, "No more sessions.\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--limit", "0"), '"0" is not a whole number above 0'),
        (("--limit", "many"), '"many" is not a whole number above 0'),
        (("--after", "01J8ZQ"), '"01J8ZQ" is no place that bridle sessions list gave out'),
    ],
)
def test_a_page_nobody_can_give_is_refused_in_a_sentence(
    place: Place, words: tuple[str, ...], problem: str
) -> None:
    ran = place.bridle("sessions", "list", *words)
    assert (ran.code, ran.out, len(ran.story)) == (2, "", 1)
    assert problem in ran.err


def test_a_session_for_programs_is_one_object_with_its_events(place: Place) -> None:
    place.bridle("run", "-m", "demo", "hello there")
    session = place.only_session()
    ran = place.bridle("sessions", "show", session, "--json")
    assert (ran.code, ran.err, ran.result["session"]["id"]) == (0, "", session)
    stored = place.bridle("sessions", "export", session)
    assert stored == place.bridle("sessions", "export", session, "--json")
    assert [event["kind"] for event in ran.result["events"]] == [event["kind"] for event in stored.stream]


def test_where_nobody_can_pick_the_sessions_are_listed_with_their_ids(place: Place) -> None:
    elsewhere = place.work / "elsewhere"
    elsewhere.mkdir()
    place.bridle("run", "-m", "demo", "the first")
    here = place.bridle("-r")
    assert (here.code, here.story) == (2, ["Which one? bridle -r ID"])
    assert here.out == place.bridle("sessions").out
    nothing_here = place.bridle("-r", cwd=elsewhere)
    assert (nothing_here.code, nothing_here.out) == (2, place.bridle("sessions", "list", "--all").out)


@goes_on
def test_where_there_is_no_session_nothing_is_listed(place: Place) -> None:
    ran = place.bridle("-r")
    assert (ran.code, ran.out) == (2, "")
    assert ran.story == [f"There is no session to continue in {place.work}. Start one: bridle run PROMPT"]


def test_an_empty_list_says_what_to_do(place: Place) -> None:
    listed = place.bridle("sessions")
    assert (listed.code, listed.err) == (0, "")
    assert "bridle run" in listed.out


@pytest.mark.requirement("G31.1")
@pytest.mark.requirement("G31.2")
def test_an_export_is_the_events_one_a_line_from_the_first_without_gaps(place: Place) -> None:
    ran = place.bridle("run", "--json", "-m", "demo", "hello")
    session = place.only_session()
    exported = place.bridle("sessions", "export", session)
    assert (exported.code, exported.err) == (0, "")
    lines = exported.out.splitlines()
    envelopes = [decode_envelope(line.encode()) for line in lines]
    assert [envelope.id for envelope in envelopes] == list(range(1, len(envelopes) + 1))
    assert kinds(envelopes)[0] == "SessionCreated"
    assert kinds(envelopes)[-1] == "SessionEnded"
    printed = ran.result["events"]
    assert [json.loads(line) for line in lines][: len(printed)] == printed
    assert envelopes == place.events(session)
    assert place.bridle("sessions", "export", "--session", session, "--format", "jsonl") == exported


@pytest.mark.requirement("G31.4")
def test_a_database_of_an_earlier_version_is_brought_up_to_date_and_that_is_said(place: Place) -> None:
    place.data.mkdir(parents=True)
    earlier = Database(
        str(place.data), now_ms=lambda: 42, notice=lambda _text: None, migrations=MIGRATIONS[:-1]
    )
    earlier.connect().close()
    first, second = (place.bridle("run", "-m", "demo", "hi") for _ in range(2))
    assert (first.code, second.code) == (0, 0), first.err
    assert "Database is upgrading…" in first.err
    assert "upgrading" not in second.err
    assert len(place.sessions()) == 2


def test_what_is_shown_of_a_session_is_what_was_said_and_done(place: Place) -> None:
    (place.work / "notes.txt").write_text("old\n")
    write = 'call write_file {"path": "notes.txt", "content": "new\\n"}\n'
    script = f'call bash {{"command": "cat notes.txt"}}\n---\nsay First.\n{write}---\nsay Second.\n'
    place.bridle("run", "--mode", "auto", "-m", place.script(script), "change\x1b[31m it")
    shown = place.bridle("sessions", "show", place.only_session())
    assert (shown.code, shown.err) == (0, "")
    lines = [line.strip() for line in shown.out.splitlines()]
    wanted = ["you", "change⟨ESC⟩[31m it", "[scripted] First.", "1  - old", "1  + new", "[scripted] Second."]
    assert [line for line in lines if line in wanted] == wanted
    assert "ran      write notes.txt                +1 -1" in lines


@goes_on
@pytest.mark.requirement("C22")
def test_a_session_nobody_knows_and_one_that_could_be_several_are_refused(place: Place) -> None:
    place.bridle("run", "-m", "demo", "same words")
    place.bridle("run", "-m", "demo", "same words")
    before = place.sessions()
    for verb in (("sessions", "show"), ("sessions", "export"), ("run", "-m", "demo", "x", "-r")):
        unknown = place.bridle(*verb, "nowhere")
        assert (unknown.code, unknown.out) == (2, "")
        assert unknown.story == ['There is no session "nowhere". List them: bridle sessions']
        several = place.bridle(*verb, "same words")
        assert (several.code, several.out) == (2, "")
        (line,) = several.story
        assert line.startswith('"same words" fits more than one session: ')
        assert all(row.id in line for row in before)
    assert place.sessions() == before


@goes_on
def test_continue_goes_on_with_the_newest_session_of_this_folder(place: Place) -> None:
    model = place.script(TALK)
    place.bridle("run", "-m", "demo", "older")
    assert place.bridle("run", "-m", model, "newer").out == "[scripted] one\n"
    newer, older = place.sessions()
    went_on = place.bridle("run", "-c", "-m", model, "and then")
    assert (went_on.code, went_on.out) == (0, "[scripted] two\n")
    assert [(row.id, row.turns, row.title) for row in place.sessions()] == [
        (newer.id, 2, "newer"),
        (older.id, 1, "older"),
    ]
    created = [event.event for event in place.events(newer.id) if isinstance(event.event, SessionCreated)]
    assert [event.resumed for event in created] == [False, True]
    place.verify(newer.id)


@goes_on
def test_resume_takes_any_unique_beginning_of_the_id_or_the_title(place: Place) -> None:
    model = place.script(TALK)
    place.bridle("run", "-m", model, "a title of its own")
    session = place.only_session()
    place.bridle("run", "-m", "demo", "another")
    beginning = session.removeprefix("sess_")[:-1].lower()
    assert place.bridle("run", "-r", session, "-m", model, "x").out == "[scripted] two\n"
    assert place.bridle("run", "-r", beginning, "-m", model, "x").out == "[scripted] three\n"
    assert place.bridle("run", "-r", "a title of its own", "-m", model, "x").out == "[scripted] four\n"


@goes_on
def test_a_resumed_session_stays_in_the_folder_it_was_made_in(place: Place) -> None:
    elsewhere = place.work / "elsewhere"
    elsewhere.mkdir()
    script = place.work / "it.script"
    script.write_text('say one\n---\ncall bash {"command": "touch here"}\n---\nsay two\n')
    place.bridle("run", "-m", f"demo:{script}", "x")
    ran = place.bridle("run", "-y", "-r", place.only_session(), "-m", f"demo:{script}", "x", cwd=elsewhere)
    assert ran.out == "[scripted] two\n"
    assert (place.work / "here").exists()


@goes_on
def test_a_session_whose_folder_was_moved_is_refused_in_a_sentence_and_left_as_it_is(place: Place) -> None:
    place.bridle("run", "-m", place.script(TALK), "x")
    session = place.only_session()
    before = place.events(session)
    moved = place.work.rename(place.work.with_name("moved"))
    ran = place.bridle("run", "-r", session, "-m", "demo", "and then", cwd=moved)
    assert (ran.code, ran.out) == (2, "")
    assert ran.story == [f"{place.work} is not a folder Bridle can work in (No such file or directory)."]
    assert place.events(session) == before


@goes_on
def test_a_continued_session_keeps_its_model(place: Place) -> None:
    place.bridle("run", "-m", place.script(TALK), "x")
    ran = place.bridle("run", "-c", "and then")
    assert (ran.code, ran.out) == (0, "[scripted] two\n")


@goes_on
def test_a_continued_session_finds_its_script_from_another_folder(place: Place) -> None:
    elsewhere = place.work / "elsewhere"
    elsewhere.mkdir()
    place.bridle("run", "-m", place.script(TALK), "x")
    ran = place.bridle("run", "-r", place.only_session(), "and then", cwd=elsewhere)
    assert (ran.code, ran.out) == (0, "[scripted] two\n")


@goes_on
def test_a_session_whose_script_is_gone_goes_on_with_another_model(place: Place) -> None:
    place.bridle("run", "-m", place.script(TALK), "x")
    (place.work / "it.script").unlink()
    without = place.bridle("run", "-c", "and then")
    assert (without.code, without.out, len(without.story)) == (2, "", 1)
    ran = place.bridle("run", "-c", "-m", place.script(TALK, "other.script"), "and then")
    assert (ran.code, ran.out) == (0, "[scripted] two\n")
