"""The verbs of `bridle sessions` as a person types them, and the options that name, fork and continue a session."""

import json
import os
import re
import time
from contextlib import closing
from pathlib import Path

import pytest

from bridle.app.user.stored_keys import session_store
from bridle.config.folders import folders
from bridle.engine.conversation import Conversation
from bridle.protocol.events import ToolResult
from bridle.sessions.archive.beside_store import forget_beside, outputs_of
from bridle.sessions.archive.stored_archive import StoredArchive
from cli_kit import Place

beside_engine = pytest.mark.through_engine(
    "a verb changes what an engine has at hand, or the engine goes on with it; the other tests only read what is stored"
)

DAY_MS = 86_400_000
YESTERDAY = 1.5
TALK = "say one\n---\nsay two\n---\nsay three\n"


def _ran(place: Place, prompt: str = "hello", *words: str, script: str = TALK) -> str:
    done = place.bridle("run", "-m", place.script(script), *words, prompt)
    assert done.code == 0, done.err
    return place.sessions()[0].id


def test_rename_gives_a_title_that_finds_the_session(place: Place) -> None:
    session = _ran(place)
    done = place.bridle("sessions", "rename", session, "fix", "the  cart")
    assert (done.code, done.out) == (0, f"{session}   fix the cart\n")
    assert place.bridle("sessions", "show", "fix the cart").out.startswith(session)
    assert place.bridle("sessions", "rename", session).out.startswith(f"{session} has no title any more")


def test_pin_shows_a_star_and_can_be_taken_off(place: Place) -> None:
    session = _ran(place)
    assert "★" in place.bridle("sessions", "pin", session).out
    assert " ★ hello" in place.bridle("sessions").out
    place.bridle("sessions", "pin", "--off", session)
    assert "★" not in place.bridle("sessions").out


@beside_engine
def test_delete_needs_a_yes_and_leaves_nothing(place: Place) -> None:
    session = _ran(place)
    refused = place.bridle("sessions", "delete", session)
    assert (refused.code, refused.story) == (
        2,
        ["Nobody is here to ask, so nothing was deleted. Delete without a question: -y"],
    )
    assert place.only_session() == session
    assert place.bridle("sessions", "delete", "-y", session).out == 'Deleted: "hello"\n'
    assert place.sessions() == []
    assert place.bridle("sessions", "show", session).code == 2


@beside_engine
def test_a_session_that_runs_cannot_be_deleted(place: Place) -> None:
    session = _ran(place)
    with closing(session_store(place.environment())) as store, closing(store.open(session)):
        done = place.bridle("sessions", "delete", "-y", session)
    assert done.code == 2
    assert "is open in another Bridle (process " in done.err
    assert done.err.endswith(f"Wait until it ends, or go on with a copy: -r {session} --fork\n")
    assert place.only_session() == session


@beside_engine
@pytest.mark.requirement("G34.3")
def test_branch_begins_where_a_turn_ended_and_goes_on_by_itself(place: Place) -> None:
    parent = _ran(place)
    place.bridle("run", "-r", parent, "and more")
    made = place.bridle("sessions", "branch", parent, "--at", "1", "--json").result["session"]
    rows = {row.id: row for row in place.sessions()}
    assert (rows[made].turns, rows[made].branch_of, rows[made].title) == (1, parent, "hello (branch)")
    assert re.search(r"\w+ .*branch of \w+", place.bridle("sessions").out)
    place.verify(made)
    went_on = place.bridle("run", "-r", made, "another way")
    assert (went_on.code, went_on.out) == (0, "[scripted] two\n")
    assert place.bridle("sessions", "branch", parent, "--at", "9").story == [
        "Turn 9 of this session has not ended or does not exist: it has turns 1 to 2"
    ]


@beside_engine
def test_fork_goes_on_with_a_copy(place: Place) -> None:
    parent = _ran(place)
    before = place.events(parent)
    done = place.bridle("run", "-c", "--fork", "-n", "the other way", "and more")
    assert (done.code, done.out) == (0, "[scripted] two\n")
    assert place.events(parent) == before
    assert place.sessions()[0].title == "the other way"
    assert place.sessions()[0].branch_of == parent


@beside_engine
def test_a_name_goes_on_with_its_session_or_begins_it(place: Place) -> None:
    _ran(place, "first night", "--session", "nightly")
    assert place.bridle("run", "--session", "nightly", "second night").out == "[scripted] two\n"
    assert (
        place.only_session() == place.bridle("sessions", "show", "nightly", "--json").result["session"]["id"]
    )
    other = place.bridle("run", "-m", place.script(TALK), "--session", "weekly", "first week")
    assert other.out == "[scripted] one\n"
    assert len(place.sessions()) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-c", "--session", "x"), "-c and --session exclude each other. Choose one"),
        (("-c", "-r", "x"), "-c and -r exclude each other. Choose one"),
        (("--fork",), "--fork goes on with a copy of a session: name it with -r, or take the newest with -c"),
        (
            ("--session", "x", "--fork"),
            "--fork goes on with a copy of a session: name it with -r, or take the newest with -c",
        ),
        (("--session", " "), "--session needs a name"),
    ],
)
def test_options_that_do_not_go_together_are_refused(place: Place, words: tuple[str, ...], says: str) -> None:
    done = place.bridle("run", "-m", "demo", *words, "hello")
    assert (done.code, done.story) == (2, [says])


def test_search_finds_what_was_said_here_and_tells_of_elsewhere(place: Place) -> None:
    elsewhere = place.work / "elsewhere"
    elsewhere.mkdir()
    session = _ran(place, "about zirconium", script="say Zirconium is a metal.\n")
    found = place.bridle("sessions", "search", "zirconium")
    assert found.code == 0
    assert f"{session[5:15]}   about zirconium" in found.out
    assert "    model: [scripted] Zirconium is a metal." in found.out
    nothing = place.bridle("sessions", "search", "zirconium", cwd=elsewhere)
    assert (nothing.code, nothing.out) == (1, "Nobody said that here. 2 places in other folders: --all\n")
    everywhere = json.loads(
        place.bridle("sessions", "search", "zirconium", "--all", "--json", cwd=elsewhere).out
    )
    assert {(hit["session"], hit["who"]) for hit in everywhere} == {(session, "you"), (session, "model")}


@pytest.mark.requirement("G34.5")
def test_exports_in_every_form(place: Place) -> None:
    session = _ran(place, "say <b>hi</b>", script="say Hello **there** <script>x</script>.\n")
    markdown = place.bridle("sessions", "export", session, "--format", "md")
    assert markdown.out.startswith("# say &lt;b>hi&lt;/b>\n")
    assert "Hello **there** &lt;script>x&lt;/script>." in markdown.out
    page = place.bridle("sessions", "export", session, "--format", "html")
    assert page.out.startswith("<!doctype html>")
    assert "Hello <b>there</b> &lt;script&gt;x&lt;/script&gt;." in page.out
    written = place.bridle("sessions", "export", session, "-o", "it.html")
    assert (written.code, written.out) == (0, "Written: it.html\n")
    assert (place.work / "it.html").read_text() == page.out
    assert (place.work / "it.html").stat().st_mode & 0o777 == 0o600
    again = place.bridle("sessions", "export", session, "-o", "it.html")
    assert (again.code, again.story) == (2, ["it.html is there already. Write over it: --force"])
    assert place.bridle("sessions", "export", session, "-o", "it.html", "--force").code == 0


@pytest.mark.requirement("G34.5")
def test_what_looks_like_a_secret_by_now_is_not_exported(place: Place) -> None:
    session = _ran(place)
    secret = "ghp_" + "a1B2" * 10
    with closing(session_store(place.environment())) as store, closing(store.open(session)) as log:
        from bridle.protocol.events import Notice
        from sessions.session_kit import put

        put(log, Notice(reason="x", message=f"the token is {secret}"))
    for form in ("jsonl", "markdown", "html"):
        out = place.bridle("sessions", "export", session, "--format", form).out
        assert "the token is «redacted:" in out
        assert secret not in out


@beside_engine
def test_an_export_comes_in_again_and_goes_on(place: Place) -> None:
    session = _ran(place)
    exported = place.bridle("sessions", "export", session).out
    before = Conversation.of(place.events(session)).messages
    place.bridle("sessions", "delete", "-y", session)
    done = place.bridle("sessions", "import", "-", stdin=exported)
    assert done.code == 0
    assert 'imported: "hello", 1 turn.' in done.out
    made = place.only_session()
    assert Conversation.of(place.events(made)).messages == before
    assert place.bridle("run", "-r", session, "and more").out == "[scripted] two\n"
    assert "imported" in place.bridle("sessions").out


def test_an_import_of_something_else_says_which_line(place: Place) -> None:
    (place.work / "bad.jsonl").write_text('{"no": "event"}\n')
    done = place.bridle("sessions", "import", "bad.jsonl")
    assert done.code == 2
    assert done.story[0].startswith("bad.jsonl: Line 1 is not an event of an export")
    assert place.bridle("sessions", "import", "missing.jsonl").story == [
        "missing.jsonl cannot be used (No such file or directory)"
    ]


@pytest.mark.parametrize("cut", ["in the middle of a line", "by zeros"])
def test_of_a_torn_export_the_valid_part_comes_in_and_the_rest_is_kept(place: Place, cut: str) -> None:
    session = _ran(place)
    lines = place.bridle("sessions", "export", session).out.encode().splitlines(keepends=True)
    rest = lines[-2][:40] if cut == "in the middle of a line" else b"\x00" * 500 + lines[-1]
    (place.work / "torn.jsonl").write_bytes(b"".join(lines[:-2]) + rest)
    place.bridle("sessions", "delete", "-y", session)
    done = place.bridle("sessions", "import", "torn.jsonl")
    assert done.code == 0, done.err
    kept = place.work / "torn.jsonl.rest"
    assert f"Its end could not be read; that part is in {kept}." in done.out
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (rest, 0o600)
    (row,) = place.sessions()
    assert (row.title, row.imported_ms is not None) == ('part of "hello"', True)
    *events, last = place.events(row.id)
    assert len(events) == len(lines) - 2
    assert last.event.message.endswith(f"could not be read from line {len(lines) - 1} on.")
    again = place.bridle("sessions", "import", "torn.jsonl")
    assert again.code == 2
    assert "torn.jsonl.rest" in again.err
    assert len(place.sessions()) == 1


@pytest.mark.requirement("G34.4")
def test_a_replay_shows_everything_and_runs_nothing(place: Place) -> None:
    script = 'call bash {"command": "echo ran >> witness"}\n---\nsay Done.\n'
    session = _ran(place, "do it", "-y", script=script)
    assert (place.work / "witness").read_text() == "ran\n"
    before = place.events(session)
    done = place.bridle("sessions", "replay", session)
    assert done.code == 0
    assert "› do it" in done.out
    assert "ran      echo ran >> witness" in done.out
    assert "[scripted] Done.\n" in done.out
    assert (place.work / "witness").read_text() == "ran\n"
    assert place.events(session) == before
    stepping = place.bridle("sessions", "replay", session, "--step")
    assert (stepping.code, stepping.story) == (
        2,
        ["--step waits for your Enter, and there is no terminal here"],
    )


def test_diff_shows_what_a_session_changed_and_what_two_did_differently(place: Place) -> None:
    script = 'call write_file {"path": "a.txt", "content": "%s\\n"}\n---\nsay Done.\n'
    first = _ran(place, "write it", "-y", script=script % "one")
    read = 'call read_file {"path": "a.txt"}\n---\n'
    second = _ran(place, "write it", "-y", script=read + script % "two")
    shown = place.bridle("sessions", "diff", first).out
    assert shown.startswith("a.txt   +1 -0  created\n")
    assert "+one" in shown
    assert place.bridle("sessions", "diff", second, "--stat").out == "a.txt   +1 -1\n"
    both = place.bridle("sessions", "diff", first, second).out
    assert both == "Both begin with the same 1 input.\na.txt   +1 -0 against +1 -1\n"
    assert place.bridle("sessions", "diff", first, "--json").result["files"][0]["path"] == "a.txt"


def test_prune_says_what_is_due(place: Place) -> None:
    _ran(place)
    assert place.bridle("sessions", "prune", "--dry-run").out == "Nothing is due.\n"
    assert place.bridle("sessions", "prune").out == "Nothing was due.\n"


def _made_old(place: Place, days: int) -> None:
    """As if every session had last been used so long ago."""
    with closing(place.database().connect(writing=True)) as connection:
        connection.execute("update sessions set updated_ms = updated_ms - ?", (days * DAY_MS,))


@beside_engine
@pytest.mark.requirement("G33.3")
def test_content_that_expired_is_said_to_be_gone_and_the_session_does_not_go_on(place: Place) -> None:
    session = _ran(place, "about zirconium", "--session", "nightly")
    kept = place.home / ".local/state/bridle/outputs" / session
    kept.mkdir(parents=True)
    (kept / "output-call_x.txt").write_text("long")
    _made_old(place, 31)
    assert place.bridle("sessions", "prune", "--dry-run").out == f"{session}   about zirconium\n"
    assert (
        place.bridle("sessions", "prune").out
        == "The content of 1 session is gone; titles, costs and chains stay.\n"
    )
    assert not kept.exists()
    place.verify(session)
    assert "content expired" in place.bridle("sessions").out
    assert "expired on" in place.bridle("sessions", "show", session).out
    refused = place.bridle("run", "-r", session, "go on")
    assert refused.code == 2
    assert "there is nothing to go on with" in refused.err
    assert place.bridle("sessions", "branch", session).code == 2
    assert (
        "has expired and is not kept any more"
        in place.bridle("sessions", "export", session, "--format", "md").out
    )
    # a job that repeats begins anew under its name
    anew = place.bridle("run", "-m", place.script(TALK), "--session", "nightly", "again")
    assert anew.code == 0
    assert len(place.sessions()) == 2


def test_what_lies_beside_a_session_goes_before_its_content_counts_as_gone(place: Place) -> None:
    sessions = [_ran(place, "first"), _ran(place, "second")]
    _made_old(place, 31)
    where = folders(place.environment())
    for session in sessions:
        os.makedirs(outputs_of(where.state, session))

    def killed() -> bool:
        """In the middle of the sweep, when the first session is done."""
        if any(row.expired_ms is not None for row in place.sessions()):
            raise RuntimeError
        return False

    with closing(session_store(place.environment())) as store, pytest.raises(RuntimeError):
        StoredArchive(store).expire(lambda _profile: 30, beside=forget_beside(where.state), stopped=killed)
    for row in place.sessions():
        assert os.path.exists(outputs_of(where.state, row.id)) == (row.expired_ms is None)


def test_the_number_of_days_is_a_setting(place: Place) -> None:
    _ran(place)
    _made_old(place, 31)
    place.bridle("config", "set", "sessions.retention_days", "90")
    assert place.bridle("sessions", "prune").out == "Nothing was due.\n"
    place.bridle("config", "set", "sessions.retention_days", "never")
    assert place.bridle("sessions", "prune").out == "Nothing was due.\n"
    place.bridle("config", "set", "sessions.retention_days", "7")
    assert "1 session is gone" in place.bridle("sessions", "prune").out


def test_an_engine_lets_old_content_go_once_a_day_by_itself(place: Place) -> None:
    old = _ran(place)
    _made_old(place, 31)
    _ran(place, "the same day")
    assert all(row.expired_ms is None for row in place.sessions())
    _swept(place, YESTERDAY)
    _ran(place, "another day")
    assert [row.id for row in place.sessions() if row.expired_ms is not None] == [old]
    place.verify(old)


def test_after_a_long_time_the_clock_has_to_be_right_for_a_day_before_content_goes(place: Place) -> None:
    old = _ran(place)
    _made_old(place, 31)
    _swept(place, 8)
    _ran(place, "back again, or the clock is wrong")
    _ran(place, "the same day")
    assert all(row.expired_ms is None for row in place.sessions())
    noted_ms = int((place.data / "swept").read_text())
    (place.data / "swept").write_text(str(noted_ms + DAY_MS))
    _ran(place, "the next day")
    assert [row.id for row in place.sessions() if row.expired_ms is not None] == [old]


def test_a_clock_that_was_wrong_for_a_moment_costs_nothing(place: Place) -> None:
    _ran(place)
    _swept(place, -400)
    _ran(place, "the clock is right again")
    assert all(row.expired_ms is None for row in place.sessions())
    assert int((place.data / "swept").read_text()) <= time.time() * 1000


def _swept(place: Place, days_ago: float) -> None:
    """As if old content had last been looked for so long ago."""
    (place.data / "swept").write_text(str(int(time.time() * 1000 - days_ago * DAY_MS)))


def test_old_content_that_cannot_go_disturbs_no_run(place: Place) -> None:
    _ran(place)
    _made_old(place, 31)
    (lock,) = (place.data / "locks").iterdir()
    lock.unlink()
    lock.symlink_to(place.home / "nowhere")
    _swept(place, YESTERDAY)
    before = (place.data / "swept").read_text()
    done = place.bridle("run", "-m", "demo", "another day")
    assert (done.code, "Traceback" in done.err) == (0, False)
    assert [row.expired_ms for row in place.sessions()] == [None, None]
    assert (place.data / "swept").read_text() == before, "it is tried again"


@pytest.mark.parametrize("verb", [("delete", "-y", "hello"), ("rekey",), ("repair",)])
def test_a_lock_that_cannot_be_written_is_named_in_one_sentence(place: Place, verb: tuple[str, ...]) -> None:
    session = _ran(place)
    (log,) = (place.data / "locks").iterdir()
    lock = log if verb[0] == "delete" else place.data / "sessions.lock"
    lock.unlink()
    lock.symlink_to(place.home / "nowhere")
    done = place.bridle("sessions", *verb)
    assert (done.code, done.out, len(done.story)) == (2, "", 1)
    assert done.story[0].startswith(f"Cannot write {lock} (")
    assert place.only_session() == session


@beside_engine
@pytest.mark.requirement("G33.5")
def test_a_person_is_told_once_a_day_what_expires_soon(place: Place) -> None:
    from cli_terminal import sitting

    _ran(place, "about zirconium")
    _made_old(place, 25)
    script = place.script(TALK)
    for told in (True, False):
        with sitting(place, "-m", script) as person:
            person.sees("Type what you want")
            assert ("1 session loses its content within 7 days" in person.text) == told


def _next_day(place: Place) -> None:
    """Nobody was told today."""
    (place.home / ".local/state/bridle/expiry-told").unlink()


@pytest.mark.requirement("X28")
def test_what_expires_soon_is_dismissed_for_those_sessions_alone(place: Place) -> None:
    from cli_terminal import sitting

    _ran(place, "about zirconium")
    _made_old(place, 25)
    young = _ran(place, "about gold")
    script = place.script(TALK)
    refused = place.bridle("sessions", "dismiss", young)
    assert (refused.code, refused.out) == (2, "")
    assert "loses no content within 7 days" in refused.err
    with sitting(place, "-m", script) as person:
        person.sees("Hear no more of them: bridle sessions dismiss")
        person.sees("Type what you want")
        person.types("/sessions dismiss\r")
        person.sees("You are not told again")
    _next_day(place)
    with sitting(place, "-m", script) as person:
        person.sees("Type what you want")
        assert "content within 7 days" not in person.text
    _made_old(place, 26)
    _next_day(place)
    with sitting(place, "-m", script) as person:
        person.sees("Type what you want")
        assert "about gold" in person.text.partition("Type what you want")[0]
        assert "about zirconium" not in person.text.partition("Type what you want")[0]


def test_a_dismissal_ends_when_the_session_is_due_no_more(place: Place) -> None:
    from cli_terminal import sitting

    session = _ran(place, "about zirconium")
    _made_old(place, 25)
    assert place.bridle("sessions", "dismiss", session).code == 0
    _made_old(place, -20)
    script = place.script(TALK)
    for told in (False, True):
        with sitting(place, "-m", script) as person:
            person.sees("Type what you want")
            assert ("1 session loses its content within 7 days" in person.text) == told
        _made_old(place, 20)
        _next_day(place)


def test_nothing_to_dismiss_is_said(place: Place) -> None:
    done = place.bridle("sessions", "dismiss")
    assert (done.code, done.out) == (0, "No session loses its content within 7 days.\n")


@beside_engine
def test_the_list_to_resume_from_can_be_put_in_order(place: Place) -> None:
    from cli_terminal import sitting

    session = _ran(place, "the first")
    with sitting(place, "-r") as person:
        person.sees('"the first"', "(run)", "Alt-P pin")
        person.types("\x1bp")
        person.sees("1★")
        person.types("\x1br")
        person.sees("New title:")
        person.types("second\r")
        person.sees("1★ second ")
        person.types("\x1b[3~")
        person.sees("Delete second for good?")
        person.types("n")
        person.types("\x04")
        assert person.ends() == 0
    (row,) = place.sessions()
    assert (row.id, row.pinned, row.title) == (session, True, "second")


def _results(place: Place, session: str) -> list[ToolResult]:
    return [one.event for one in place.events(session) if isinstance(one.event, ToolResult)]


@pytest.mark.requirement("D9.7")
def test_a_long_output_is_encrypted_and_read_again_after_a_new_key_and_in_a_branch(place: Place) -> None:
    long = 'call bash {"command": "seq 1 20000; echo the-very-end"}\n---\nsay one\n---\n'
    session = _ran(place, "count", "--mode", "yolo", script=f"{long}say two\n")
    (result,) = _results(place, session)
    assert '"output:' in result.content
    (kept,) = (place.home / ".local/state/bridle/outputs" / session).iterdir()
    assert b"12345" not in kept.read_bytes()
    assert place.bridle("sessions", "rekey").code == 0
    assert place.bridle("sessions", "branch", session).code == 0
    branch = next(row.id for row in place.sessions() if row.id != session)
    again = json.dumps({"path": f"output:{result.call_id}", "offset": 12345, "limit": 1})
    script = place.script(f"{long}call read_file {again}\n---\nsay read\n")
    for one in (session, branch):
        done = place.bridle("run", "-m", script, "-r", one, "read it again")
        assert done.code == 0, done.err
        assert _results(place, one)[-1].content.startswith("12345\t12345\n")
    assert place.bridle("sessions", "delete", "-y", session).code == 0
    assert not kept.exists()


@beside_engine
def test_an_output_that_was_changed_on_the_disk_is_not_shown(place: Place) -> None:
    long = 'call bash {"command": "seq 1 20000"}\n---\nsay one\n---\n'
    session = _ran(place, "count", "--mode", "yolo", script=f"{long}say two\n")
    (result,) = _results(place, session)
    (kept,) = (place.home / ".local/state/bridle/outputs" / session).iterdir()
    data = bytearray(kept.read_bytes())
    data[5_000] ^= 1
    kept.write_bytes(data)
    path = f"output:{result.call_id}"
    script = place.script(f"{long}call read_file {json.dumps({'path': path})}\n---\nsay read\n")
    assert place.bridle("run", "-m", script, "-r", session, "again").code == 0
    assert _results(place, session)[-1].content == f"{path} cannot be read: it is not what was written."


def test_a_session_whose_questions_were_texts_is_shown_replayed_and_continued(place: Place) -> None:
    old = Path(__file__).parent.parent / "sessions" / "old" / "questions-0.1.jsonl"
    assert "imported" in place.bridle("sessions", "import", str(old)).out
    (listed,) = json.loads(place.bridle("sessions", "list", "--json").out)
    shown = json.loads(place.bridle("sessions", "show", listed["id"], "--json").out)
    told = [event["payload"] for event in shown["events"] if event["kind"].startswith("Question")]
    assert told[0]["question"] == {"about": "words", "text": "Which one?", "choices": ["a", "b"]}
    assert told[1]["answer"] == {"about": "words", "text": "b"}
    assert "Done." in place.bridle("sessions", "replay", listed["id"], "--pace", "1000").out
    again = place.bridle("run", "-r", listed["id"], "-m", "demo", "go on")
    assert again.code == 0, again.err


@pytest.mark.parametrize("verb", ["show", "diff"])
def test_a_session_whose_results_were_told_by_loose_keys_reads_as_it_did(place: Place, verb: str) -> None:
    old = Path(__file__).parent.parent / "sessions" / "old"
    assert place.bridle("sessions", "import", str(old / "results-by-keys.jsonl")).code == 0
    session = place.only_session()
    told = place.bridle("sessions", verb, session).out
    as_it_was = (old / f"results-by-keys.{verb}.txt").read_text()
    assert told.replace(session, "ID").replace(str(place.work), "WORK") == as_it_was


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_a_session_with_a_background_command_becomes_a_page(place: Place, form: str) -> None:
    background = 'call bash {"command": "sleep 600", "background": true}\n---\nsay Left running.\n'
    session = _ran(place, "go", "--mode", "yolo", script=background)
    page = place.bridle("sessions", "export", session, "--format", form)
    assert page.code == 0, page.err
    assert page.out.count("sleep 600") >= 2
