"""`bridle token` as a person types it, and as a program cannot."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from bridle.base.clock import SystemClock
from bridle.base.ids import Ids, short_ids
from bridle.base.process.peer_process import can_tell_descent
from bridle.config.folders import folders
from bridle.control.capability_tokens import Tokens
from bridle.control.token_files import TokenFile, open_tokens, read_token_file
from bridle.credentials.locks import machine_key_of
from bridle.protocol.errors import CommandRefused, UsageError
from bridle.protocol.tokens import APPROVE
from cli_kit import BRIDLE, Place
from cli_terminal import sitting

TOKEN = re.compile(r"[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{43}")


def engine_tokens(place: Place, **env: str) -> Tokens:
    """As a `bridle serve` of this data folder has them."""
    clock = SystemClock()
    return open_tokens(
        TokenFile(folders(place.environment()).state, clock),
        clock=clock,
        ids=Ids(clock.now_ms, os.urandom),
        machine_key=machine_key_of(env),
        hear=lambda *_: None,
    )


def minted(place: Place, *words: str, **env: str) -> tuple[int, str]:
    with sitting(place, "token", *words, columns=400, **env) as person:
        return person.ends(), person.text


@pytest.fixture
def session(place: Place) -> str:
    place.bridle("run", "-m", "demo", "say hello")
    return place.only_session()


@pytest.mark.requirement("X10", "G22.14")
def test_a_person_at_a_terminal_mints_lists_and_revokes(place: Place, session: str) -> None:
    code, text = minted(place, "--session", session[:16], "--identity-class", "agent")
    found = TOKEN.search(text)
    assert code == 0, text
    assert found is not None, text
    tokens = engine_tokens(place)
    claims = tokens.read(found[0])
    assert (claims.identity_class, claims.sessions, claims.can_mint) == ("agent", (session,), False)

    file = place.work / "ana.token"
    code, text = minted(
        place, "mint", "--approve", "--name", "Ana", "--for", "2h", "--session", session, "--out", str(file)
    )
    assert code == 0, text
    assert TOKEN.search(text) is None
    assert os.stat(file).st_mode & 0o777 == 0o400
    ana = tokens.read(read_token_file(str(file)))
    assert (ana.name, ana.commands, ana.exp - claims.exp < -20 * 3600) == ("Ana", APPROVE, True)

    listed = place.bridle("token", "list", "--json")
    rows = json.loads(listed.out)["tokens"]
    assert [(row["jti"], row["name"], row["identity_class"], row["sessions"]) for row in rows] == [
        (claims.jti, "", "agent", [session]),
        (ana.jti, "Ana", "human", [session]),
    ]
    short = short_ids((claims.jti, ana.jti))[ana.jti]
    assert place.bridle("token", "revoke", short).out.startswith(f"Revoked: {ana.jti}.")
    with pytest.raises(CommandRefused, match="was revoked at"):
        tokens.read(read_token_file(str(file)))
    shown = place.bridle("token").out
    assert shown.split("\n", 1)[0].split() == ["ID", "FOR", "MAY", "STATE", "SESSIONS"]
    assert re.search(
        rf"^{short}  Ana \(human\)      approve     revoked 20\d\d-\d\d-\d\d \d\d:\d\d  ", shown, re.MULTILINE
    )
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count(session.removeprefix("sess_")[:10]) == 2
    assert found[0] not in shown
    unknown = place.bridle("token", "revoke", "tok_x")
    assert (unknown.code, unknown.err.strip()) == (
        2,
        'bridle: There is no token "tok_x". List them: bridle token list',
    )
    said = [one["what"] for one in json.loads(place.bridle("token", "audit", "--json").out)["entries"]]
    assert said == ["minted", "minted", "revoked"]
    answers = place.bridle("token", "audit", "--session", session)
    assert answers.code == 0
    assert (
        f"{ana.jti}, name Ana, identity class human, sessions {session}, may approve, until 20" in answers.out
    )
    assert '["' not in answers.out


def test_a_program_mints_nothing(place: Place, session: str) -> None:
    refused = place.bridle("token", "--session", session)
    assert refused.code == 3
    assert refused.err == (
        "bridle: A token is minted by a person at a terminal, and this is none. "
        "In one: bridle token mint --session ID --out FILE, then give the file to the program.\n"
    )
    assert json.loads(place.bridle("token", "list", "--json").out) == {"tokens": []}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("mint",), "Which session?"),
        (("mint", "--session", "x", "--ci"), "Which session?"),
        (("mint", "--session", "x", "--watch", "--approve"), "choose one of them"),
        (("mint", "--ci", "--for", "soon"), "is no time"),
        (("mint", "--ci", "--for", "999999d"), "is no time"),
        (("mint", "--ci", "--name", "terminal"), "is no name"),
    ],
)
def test_what_cannot_be_minted_is_one_sentence(place: Place, words: tuple[str, ...], sentence: str) -> None:
    refused = place.bridle("token", *words)
    assert refused.code in (2, 3)
    assert sentence in refused.err
    assert engine_tokens(place).issued == ()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--session", "nobody"), "There is no session"),
        (("--ci", "--out", "/nowhere/at/all"), "cannot be written"),
    ],
)
def test_what_fails_at_the_terminal_leaves_no_token(
    place: Place, words: tuple[str, ...], sentence: str
) -> None:
    code, text = minted(place, "mint", *words)
    assert code == 2, text
    assert sentence in text
    assert [row for row in engine_tokens(place).issued if row.revoked_ms is None] == []


@pytest.mark.requirement("G22.15")
def test_a_file_for_a_job_opens_the_engine_that_is_started_with_it(place: Place, tmp_path: Path) -> None:
    key = os.urandom(32).hex()
    file = tmp_path / "ci-token.json"
    code, text = minted(place, "mint", "--ci", "--out", str(file), BRIDLE_MACHINE_KEY=key)
    assert code == 0, text
    (tmp_path / "job").mkdir()
    job = engine_tokens(Place(tmp_path / "job"), BRIDLE_MACHINE_KEY=key)
    token = read_token_file(str(file))
    with pytest.raises(CommandRefused):
        job.read(token)
    job.start_with(token)
    assert job.read(token).identity_class == "human"


@pytest.mark.requirement("G22.15")
@pytest.mark.parametrize("mode", [0o440, 0o404, 0o600, 0o400])
def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "t.json"
    file.write_text('{"token": "a.b"}\n')
    file.chmod(mode)
    if mode in (0o600, 0o400):
        assert read_token_file(str(file)) == "a.b"
        return
    with pytest.raises(UsageError, match="others may read it"):
        read_token_file(str(file))


@pytest.mark.parametrize("content", ["", "{}", '{"token": 3}', "{broken"])
def test_a_token_file_without_a_token_is_one_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "t.json"
    file.write_text(content)
    file.chmod(0o400)
    with pytest.raises(UsageError, match="holds no token"):
        read_token_file(str(file))


def test_a_command_of_a_session_mints_nothing(place: Place) -> None:
    given: dict[str, Any] = {"command": "bridle token mint --ci --print"}
    explained = place.bridle("permissions", "explain", "bash", json.dumps(given), "--mode", "yolo", "--json")
    assert json.loads(explained.out)["verdict"] == "deny"


@pytest.mark.skipif(not can_tell_descent(), reason="this system does not tell who started a process")
def test_a_terminal_that_a_command_made_is_no_person(place: Place) -> None:
    words = [*BRIDLE, "token", "mint", "--ci", "--print"]
    inside = "import os, pty, sys; del os.environ['INSIDE_BRIDLE']; pty.spawn(sys.argv[1:])"
    (place.work / "mint.py").write_text(inside)
    command = f"python3 mint.py {' '.join(words[:-4])} to''ken mint --ci --print"
    model = place.script(f"call bash {json.dumps({'command': command})}\n---\nsay Done.\n")
    place.bridle("run", "-m", model, "--mode", "yolo", "--sandbox", "off", "go")
    (result,) = [one.event for one in place.events(place.only_session()) if one.kind == "ToolResult"]
    assert "never clients" in str(result)
    assert not engine_tokens(place).issued
