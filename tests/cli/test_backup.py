"""`bridle sessions backup`: a copy that is whole, is nobody else's, and comes in again."""

import os
import shutil

from cli_kit import Place, kinds

TALK = "say one\n---\nsay two\n---\nsay three\n"


def contents(place: Place) -> dict[str, list[str]]:
    return {row.title: kinds(place.events(row.id)) for row in place.sessions()}


def test_a_backup_is_made_while_something_runs_and_comes_in_again(place: Place, tmp_path) -> None:
    model = place.script(TALK)
    place.bridle("run", "-m", model, "first")
    session = place.only_session()
    before = contents(place)
    os.mkfifo(place.work / "go")
    waits = place.script("call bash\n    command: read line < go\n---\nsay done\n", "waits.script")
    target = tmp_path / "kept.db"
    with place.started("run", "-y", "-s", "off", "-m", waits, "second") as running:
        with open(place.work / "go", "w", encoding="utf-8") as go:
            made = place.bridle("sessions", "backup", str(target))
            go.write("go\n")
        assert running.end().code == 0
    assert made.code == 0, made.err
    assert made.out.startswith(f"{target}   2 sessions, ")
    assert "read back and whole" in made.out
    assert {oct(path.stat().st_mode & 0o777) for path in (target, tmp_path / "kept.db.key")} == {"0o600"}
    assert sorted(path.name for path in tmp_path.glob("kept*")) == ["kept.db", "kept.db.key"]
    assert b"SessionCreated" not in target.read_bytes()

    assert place.bridle("sessions", "delete", "-y", session).code == 0
    came = place.bridle("sessions", "import", str(target))
    assert (
        came.out
        == "1 session came in. 1 left out: here already, or nothing in them. Nothing in them was run.\n"
    )
    assert contents(place)["first"] == before["first"]
    back = place.bridle("run", "-r", session, "-m", model, "again")
    assert (back.code, back.out) == (0, "[scripted] two\n")


def test_a_backup_is_never_written_over_something(place: Place, tmp_path) -> None:
    assert place.bridle("sessions", "backup", str(tmp_path / "none")).story == [
        "There is nothing stored here yet. It begins with the first session: bridle run PROMPT"
    ]
    place.bridle("run", "-m", place.script(TALK), "first")
    for name in ("kept.db", "other.db.key"):
        (tmp_path / name).write_text("mine")
        refused = place.bridle("sessions", "backup", str(tmp_path / name.removesuffix(".key")))
        assert refused.code == 2
        assert "is there already; nothing was written" in refused.err
        assert (tmp_path / name).read_text() == "mine"
    nowhere = place.bridle("sessions", "backup", str(tmp_path / "no" / "folder"))
    assert (nowhere.code, "cannot be written" in nowhere.err) == (2, True)


def test_a_damaged_database_makes_no_backup(place: Place, tmp_path) -> None:
    place.bridle("run", "-m", place.script(TALK), "first")
    path = place.data / "sessions.db"
    data = bytearray(path.read_bytes())
    data[-2048] ^= 1
    path.write_bytes(data)
    refused = place.bridle("sessions", "backup", str(tmp_path / "kept.db"))
    assert refused.code == 1
    assert "bridle sessions repair" in refused.err
    assert list(tmp_path.glob("kept*")) == []


def test_a_backup_can_be_put_back_by_hand(place: Place, tmp_path) -> None:
    model = place.script(TALK)
    place.bridle("run", "-m", model, "first")
    before = contents(place)
    place.bridle("sessions", "backup", str(tmp_path / "kept.db"))
    for name in os.listdir(place.data):
        if name != "machine.key":  # what unlocks the key stays where it is
            path = place.data / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copy(tmp_path / "kept.db", place.data / "sessions.db")
    shutil.copy(tmp_path / "kept.db.key", place.data / "sessions.key")
    assert contents(place) == before
    assert place.bridle("sessions", "repair").out.endswith("They are taken as they are from now on.\n")
    assert place.bridle("run", "-c", "-m", model, "again").out == "[scripted] two\n"


def test_a_backup_from_elsewhere_belongs_to_the_folder_it_came_into(place: Place, tmp_path) -> None:
    place.bridle("run", "-m", place.script(TALK), "first")
    place.bridle("sessions", "backup", str(tmp_path / "kept.db"))
    place.bridle("sessions", "rekey")
    place.bridle("sessions", "delete", "-y", place.only_session())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert place.bridle("sessions", "import", str(tmp_path / "kept.db"), cwd=elsewhere).code == 0
    assert [row.cwd for row in place.sessions()] == [str(elsewhere)]
