"""`${NAME}` in what settings say of a server: filled at its launch, from the environment or the store."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.app.user.stored_keys import StoredKeys
from bridle.base.clock import SystemClock
from bridle.config.folders import folders
from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import of_kind
from bridle.mcp.server_definitions import BadReference, decode_server, fill, filled_launch, reference_names
from bridle.protocol.events import ToolResult
from bridle.providers.script import call, say
from mcp_client.test_project_servers import agree
from mcp_kit import server, session_with, states, until_phase
from tables import table

ALL = {"allow": ("mcp__*",)}
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,9}", fullmatch=True).filter(
    lambda name: not name.startswith("BRIDLE")
)
PLAIN = st.text().filter(lambda text: "${" not in text and not text.endswith("$"))


@given(st.lists(st.tuples(PLAIN, NAMES, st.text())), PLAIN)
def test_every_reference_becomes_its_value_and_the_rest_stays(parts, tail) -> None:
    found = {name: value for _, name, value in parts}
    text = "".join(f"{plain}${{{name}}}" for plain, name, _ in parts) + tail
    assert fill(text, found) == "".join(f"{plain}{found[name]}" for plain, name, _ in parts) + tail


@given(PLAIN, NAMES)
def test_two_dollars_are_a_plain_one(plain, name) -> None:
    assert fill(f"{plain}$${{{name}}}", {name: "never"}) == f"{plain}${{{name}}}"


@given(st.text())
def test_any_text_is_filled_or_refused_in_one_sentence(text) -> None:
    try:
        fill(text, {})
    except BadReference as problem:
        assert "\n" not in str(problem)


def test_what_has_no_value_has_its_default() -> None:
    assert fill("${A:-https://a.example}/mcp${B:-}", {}) == "https://a.example/mcp"
    assert fill("${A:-a}", {"A": "b"}) == "b"


@table(
    ("text", "problem"),
    [
        ("${A}", "A has no value: set that variable, or store one with: bridle mcp secret A"),
        ("${input:a}", "${…} takes the name of a variable, or NAME:-otherwise; a plain ${ is written $${"),
        ("${BRIDLE_PASSPHRASE:-x}", "BRIDLE_PASSPHRASE is Bridle's own, and no server gets it"),
    ],
)
def test_what_cannot_be_filled_says_why(text, problem) -> None:
    with pytest.raises(BadReference) as raised:
        fill(text, {"BRIDLE_PASSPHRASE": "never"})
    assert str(raised.value) == problem


class Values(dict):
    async def find(self, names, *, of_project):
        assert not of_project
        return {name: self[name] for name in names if name in self}


async def test_only_the_program_itself_is_not_filled() -> None:
    table = {"command": ["${A}", "${A}"], "args": ["-${B:-b}"], "env": {"X": "${A}"}}
    definition = decode_server("x", table, part="x")
    assert reference_names(definition) == ("A", "B")
    launched, secrets = await filled_launch(definition, Values(A="a"))
    assert (launched.argv, launched.env) == (("${A}", "a", "-b"), {"X": "a"})
    assert set(secrets) == {"a"}
    assert definition.env == {"X": "${A}"}, "what is written stays what everybody else reads"


@table(("value", "problem"), [("ftp://a", "http://"), ("https://a\nX: y", None)])
async def test_an_address_and_a_header_stay_what_they_are(value, problem) -> None:
    definition = decode_server("x", {"url": "${A}", "headers": {"H": "${B}"}}, part="x")
    with pytest.raises(BadReference, match=problem or "line break"):
        await filled_launch(definition, Values(A=value if problem else "https://a", B=value))


def store(home, name: str, secret: str, **env: str) -> None:
    """What `bridle mcp secret` does."""
    own = {"BRIDLE_HOME": str(home), "HOME": str(home), **env}
    stored = StoredKeys(where=folders(own), env=own, clock=SystemClock())
    stored.put_value(name, secret)


async def test_a_server_gets_variables_and_stored_values_and_nothing_else_does(tmp_path) -> None:
    secret, stored = "quiet-" + "words" * 3, "kept-" + "words" * 3
    store(tmp_path, "STORED", stored)
    env = {"SET": "${SET}", "STORED": "x ${STORED}", "GIVEN": "${NOBODY:-by default}"}
    model = scripted(call("mcp__files__env"), say("Done."))
    servers = {"files": server(env=env)}
    async with session_with(model, tmp_path, servers, env={"SET": secret}, **ALL) as session:
        state = await until_phase(session, "files", "up")
        events = await session.ask("go")
        everything = [envelope.event for envelope in await session.stored()]
    (result,) = of_kind(events, ToolResult)
    assert f'"SET": "{secret}"' in result.content
    assert '"GIVEN": "by default"' in result.content
    assert stored not in str(everything), "what was stored is masked wherever a server repeats it"
    assert '"STORED": "x ' in result.content
    with open(state["log"]) as log:
        assert stored not in log.read()
    kept = [file.read_text() for file in (tmp_path / "state" / "mcp").rglob("*") if file.is_file()]
    assert kept
    assert not any(secret in text or stored in text for text in kept)


async def test_a_value_that_is_missing_is_one_sentence_and_the_server_does_not_start(tmp_path) -> None:
    started = tmp_path / "started"
    servers = {"files": server({"started": str(started)}, env={"KEY": "${NO_SUCH_KEY}"})}
    async with session_with(scripted(), tmp_path, servers) as session:
        state = await until_phase(session, "files", "given up")
        assert state["problem"] == (
            "NO_SUCH_KEY has no value: set that variable, or store one with: bridle mcp secret NO_SUCH_KEY"
        )
    assert not started.exists()


async def test_the_last_words_of_a_server_are_without_the_value_it_was_given(tmp_path) -> None:
    secret = "quiet-" + "words" * 3
    told = {"die": f"no such key: {secret}"}
    async with session_with(
        scripted(), tmp_path, {"files": server(told, env={"KEY": "${SET}"})}, env={"SET": secret}
    ) as session:
        state = await until_phase(session, "files", "down")
    assert "no such key" in state["problem"]
    assert secret not in str(state)


async def test_an_address_with_a_value_in_it_is_not_shown_when_it_fails(tmp_path) -> None:
    secret = "quiet-" + "words" * 3
    table = {"url": "http://127.0.0.1:9/${SET}", "connect_s": 5}
    async with session_with(scripted(), tmp_path, {"far": table}, env={"SET": secret}) as session:
        await until_phase(session, "far", "down")
        assert secret not in str(await states(session))
        assert secret not in str([envelope.event for envelope in await session.stored()])


async def test_a_server_of_a_project_gets_what_commands_see_and_nothing_that_is_stored(tmp_path) -> None:
    from bridle.conformance.harness import harness

    home, folder = tmp_path / "home", tmp_path / "work"
    (folder / ".bridle").mkdir(parents=True)
    env = {"MINE": "${STORED:-nothing} ${SECRET:-nothing} ${HOME}"}
    table = server(sandbox="workspace-write", env=env)
    (folder / ".bridle" / "settings.json").write_text(json.dumps({"mcp_servers": {"theirs": table}}))
    store(home, "STORED", "kept words here")
    for kind in ("config", "mcp_server"):
        agree(home, folder, {kind})
    model = scripted(call("mcp__theirs__env"), say("Done."))
    own = {"SECRET": "quiet words"}
    options = {"home": str(home), "folder": str(folder), "sandbox": "off", "env": own, **ALL}
    async with harness(model, **options) as session:
        events = await session.ask("go")
    (result,) = of_kind(events, ToolResult)
    assert '"MINE": "nothing nothing /' in result.content


async def test_a_server_of_a_project_is_not_told_to_have_more_stored() -> None:
    definition = decode_server("x", {"command": ["x", "${KEY}"]}, part="x", of_project=True)
    with pytest.raises(
        BadReference, match="KEY has no value here: a server of a project gets what commands see"
    ):
        await filled_launch(definition, None)
