"""`bridle mcp` for the servers a session has: real commands, and real processes of `mcp_server.py`."""

import json
import select
import signal
from pathlib import Path

import pytest

from bridle.app.project_trust import project_items
from bridle.cli.verbs import VERBS as ALL_VERBS
from bridle.config.folders import folders
from bridle.mcp.server_definitions import VERBS
from bridle.safety.trust import Approvals
from cli_kit import Place
from mcp_kit import is_running, server, starts
from serve_kit import serving

KEY = "sk-ant-" + "api03-" + "Qz7" * 15
MISSING = "cannot start no-such-program-anywhere: not found"


def own(place: Place, servers: dict, **more: object) -> None:
    """The person's own settings."""
    folder = place.home / ".config/bridle"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"mcp_servers": servers, **more}))


def of_project(place: Place, text: str, name: str = "config.toml") -> None:
    folder = place.work / ".bridle"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


def agree(place: Place, kinds: set[str]) -> None:
    """What a person agrees to with `bridle trust`."""
    env = place.environment()
    where = folders(env)
    approvals = Approvals(where.config)
    for item in project_items(approvals, where=where, cwd=str(place.work), env=env):
        if item.kind in kinds:
            item.approve(approvals)


def listed(place: Place) -> dict[str, dict]:
    done = place.bridle("mcp", "list", "--json")
    assert done.code == 0, done.err
    return {row["name"]: row for row in json.loads(done.out)}


def test_the_list_has_every_tier_and_says_what_is_used(place: Place) -> None:
    value = "quiet words"
    own(
        place,
        {
            "files": server(env={"HUSH": value}),
            "far": {"url": "https://far.example/mcp", "headers": {"X-Hush": value}},
            "off": {"command": ["true"], "disabled": True},
        },
    )
    of_project(place, '[mcp_servers.theirs]\ncommand = ["true"]\n')
    of_project(place, "[mcp_servers.near]\nurl = 'http://127.0.0.1:9/'\n", "config.local.toml")
    rows = listed(place)
    assert {name: row["state"] for name, row in rows.items()} == {
        "far": "used",
        "files": "used",
        "near": "waits for trust",
        "off": "disabled",
        "theirs": "waits for trust",
    }
    assert rows["theirs"]["files"] == [".bridle/config.toml line 1"]
    assert rows["near"]["files"] == [".bridle/config.local.toml line 1"]
    assert (rows["far"]["launch"], rows["far"]["headers"]) == ("https://far.example/mcp", ["X-Hush"])
    assert (rows["files"]["env"], rows["files"]["tools"]) == (["HUSH"], None)
    for words in (("list",), ("list", "--json"), ("show", "files"), ("show", "far", "--json")):
        done = place.bridle("mcp", *words)
        assert done.code == 0
        assert value not in done.out + done.err


def test_a_trusted_file_still_waits_for_the_program_it_starts(place: Place) -> None:
    of_project(place, '[mcp_servers.theirs]\ncommand = ["true"]\n')
    before = listed(place)["theirs"]["why"]
    assert before == "nobody has agreed to .bridle/config.toml: bridle trust"
    agree(place, {"config"})
    row = listed(place)["theirs"]
    assert (row["state"], row["why"].partition(",")[0]) == ("waits for trust", "this project starts it")
    agree(place, {"mcp_server"})
    assert listed(place)["theirs"]["state"] == "used"


def test_a_server_that_means_nothing_is_in_the_list_with_why(place: Place) -> None:
    own(place, {"both": {"command": ["true"], "url": "https://far.example/"}})
    row = listed(place)["both"]
    assert row["state"] == "wrong"
    assert row["why"] == "mcp_servers.both: it has both command and url"


def test_one_server_line_by_line(place: Place) -> None:
    own(place, {"far": {"url": "https://far.example/mcp", "headers": {"X-Hush": "x"}}})
    done = place.bridle("mcp", "show", "far")
    assert done.out.splitlines() == [
        "far",
        "  used        yes",
        "  written in  settings.json line 1",
        "  http        https://far.example/mcp",
        "  headers     X-Hush",
        "  discovery   auto",
        "  tools       not known yet",
        f"  log         {place.home}/.local/state/bridle/log/mcp-far.log",
    ]


def test_a_secret_among_the_words_of_a_command_is_not_shown(place: Place) -> None:
    own(place, {"far": {"command": ["serve-it", "--key", KEY]}})
    assert KEY not in place.bridle("mcp", "list").out + place.bridle("mcp", "show", "far", "--json").out


def test_without_a_verb_it_is_the_list(place: Place) -> None:
    own(place, {"far": {"url": "https://far.example/mcp"}})
    assert place.bridle("mcp", "--json").out == place.bridle("mcp", "list", "--json").out != "[]\n"


def test_no_server_is_called_like_a_verb() -> None:
    assert {action.name for action in ALL_VERBS["mcp"].actions} <= VERBS


def test_without_servers_the_list_says_how_to_name_one(place: Place) -> None:
    done = place.bridle("mcp", "list")
    assert (done.code, done.out) == (0, "No MCP servers. How to name one: bridle help mcp\n")


def test_a_server_is_tried_for_real_and_nothing_of_it_stays(place: Place) -> None:
    started, child = place.work / "started", place.work / "child"
    named = [{"name": "look"}, {"name": "touch"}]
    told = {"named": named, "started": str(started), "child": str(child)}
    files = server(told, disabled_tools=["touch"])
    own(place, {"files": {**files, "command": ["/usr/bin/env", *files["command"]]}})
    done = place.bridle("mcp", "test", "files")
    assert (done.code, done.err) == (0, "")
    assert listed(place)["files"]["pin"].startswith("its path in a system folder, by its first use, ")
    tools = ["mcp__files__look", "mcp__files__list_resources", "mcp__files__read_resource"]
    assert done.out.splitlines() == [
        "files can be used",
        "  speaks      2025-11-25",
        "  says it is  test server 1",
        f"  tools       3: {', '.join(tools)}",
        "  resources   1: note://a",
        "  prompts     1: greet",
        f"  log         {place.home}/.local/state/bridle/log/mcp-files.log",
    ]
    assert not is_running(int(started.read_text()))
    assert not is_running(int(child.read_text()))
    assert listed(place)["files"]["tools"] == tools, "what it said is kept for the first request of a session"


def test_a_server_is_tried_in_the_sandbox_of_a_session(place: Place) -> None:
    inside, outside = place.work / "inside", place.home / "outside"
    confined = {"sandbox": "workspace-write"}
    own(
        place,
        {
            "in": server({"started": str(inside)}, **confined),
            "out": server({"started": str(outside)}, **confined),
        },
    )
    assert (place.bridle("mcp", "test", "in").code, inside.exists()) == (0, True)
    assert (place.bridle("mcp", "test", "out").code, outside.exists()) == (1, False)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"command": ["no-such-program-anywhere"], "sandbox": "off"}, MISSING),
        (server({"silent": True}, connect_s=0.5), "it was not ready within 0.5 s"),
        ({"url": "http://127.0.0.1:9/mcp"}, "connection refused"),
        ({"url": "http://localhost:9/mcp"}, "connection refused"),
        ({"url": "http://nowhere.invalid/mcp"}, "the name of the host was not found"),
    ],
)
def test_a_server_that_is_not_there_is_said_in_one_sentence(place: Place, table: dict, problem: str) -> None:
    own(place, {"files": table})
    done = place.bridle("mcp", "test", "files")
    log = f"{place.home}/.local/state/bridle/log/mcp-files.log"
    assert (done.code, done.out) == (1, "")
    assert done.story == [f'MCP server "files" cannot be used: {problem}. Its log: {log}']
    report = place.bridle("mcp", "test", "files", "--json")
    assert report.code == 1
    assert (report.result["ok"], report.result["problem"], report.result["log"]) == (False, problem, log)


def test_the_log_has_the_last_words_of_a_server_that_ended(place: Place) -> None:
    own(place, {"files": server({"die": "no such licence"})})
    done = place.bridle("mcp", "test", "files")
    assert (done.code, len(done.story)) == (1, 1)
    assert "no such licence" in (place.home / ".local/state/bridle/log/mcp-files.log").read_text()


def test_a_signal_ends_what_was_started(place: Place) -> None:
    started = place.work / "started"
    own(place, {"files": server({"silent": True, "started": str(started)})})
    with starts(started) as pids, place.started("mcp", "test", "files") as running:
        pid = int(pids.readline())
        done = running.signal(signal.SIGTERM)
    assert (done.code, done.out) == (143, "")
    assert not is_running(pid)


def test_a_server_that_does_not_count_is_not_started(place: Place) -> None:
    started = place.work / "started"
    own(place, {"off": server({"started": str(started)}, disabled=True)})
    of_project(place, f'[mcp_servers.theirs]\ncommand = ["touch", "{started}"]\n')
    assert place.bridle("mcp", "test", "off").story == ['MCP server "off" cannot be used: it is disabled']
    done = place.bridle("mcp", "test", "theirs")
    assert (done.code, "bridle trust" in done.err) == (1, True)
    assert not started.exists()


def config_file(place: Place, text: str = "") -> Path:
    path = place.home / ".config/bridle/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_server_is_added_and_taken_out_and_the_rest_of_the_file_stays(place: Place) -> None:
    before = '# mine\nmode = "plan"  # careful\n\n[mcp_servers.old] # stays\nurl = "https://old.example/"\n'
    file = config_file(place, before)
    done = place.bridle("mcp", "add", "my.files", "--", "npx", "-y", "server files", "--", ".")
    assert done.out == f'MCP server "my.files" is in {file} now. Try it: bridle mcp test my.files\n'
    assert place.bridle("mcp", "add", "far", "https://far.example/sse", "--transport", "sse").code == 0
    assert file.read_text().startswith(before)
    rows = listed(place)
    assert rows["my.files"]["launch"] == "npx -y 'server files' -- ."
    assert (rows["far"]["transport"], rows["far"]["launch"]) == ("sse", "https://far.example/sse")
    done = place.bridle("mcp", "remove", "my.files")
    assert done.out == f'MCP server "my.files" is no longer in {file}.\n'
    assert place.bridle("mcp", "remove", "far").code == 0
    assert file.read_text().rstrip() == before.rstrip()


def test_the_first_server_makes_the_file_and_the_last_leaves_nothing_wrong(place: Place) -> None:
    assert place.bridle("mcp", "add", "files", "true").code == 0
    assert listed(place)["files"]["state"] == "used"
    assert place.bridle("mcp", "remove", "files").code == 0
    assert listed(place) == {}
    assert place.bridle("config", "validate").code == 0


def test_what_a_project_names_is_not_taken_out_of_your_own_settings(place: Place) -> None:
    file = config_file(place, '[mcp_servers.near]\nurl = "https://near.example/"\n')
    of_project(place, '[mcp_servers.theirs]\ncommand = ["true"]\n')
    assert place.bridle("mcp", "remove", "theirs").story == [
        'MCP server "theirs" is not in your own settings but in .bridle/config.toml line 1. Take it out there'
    ]
    assert "near" in file.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("--", "serve-it", "--key", KEY),
        ("https://far.example/?key=" + KEY,),
        ("https://me:hush@far.example/",),
    ],
)
def test_a_secret_is_no_word_of_a_command(place: Place, words: tuple[str, ...]) -> None:
    file = config_file(place)
    done = place.bridle("mcp", "add", "far", *words)
    assert (done.code, len(done.story)) == (2, 1)
    assert done.story[0].startswith("One of these words looks like a secret")
    assert KEY not in done.err
    assert file.read_text() == ""


def test_the_log_of_a_server_is_shown_from_its_end(place: Place) -> None:
    own(place, {"files": server()})
    path = place.home / ".local/state/bridle/log/mcp-files.log"
    assert place.bridle("mcp", "logs", "files").out == f"files has written nothing yet: {path}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("one\ntwo\nthree\n")
    assert place.bridle("mcp", "logs", "files").out == "one\ntwo\nthree\n"
    assert place.bridle("mcp", "logs", "files", "-n", "2").out == "two\nthree\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "fra"), 'There is no MCP server "fra" here. Did you mean far? See: bridle mcp list'),
        (("test", "nosuch"), 'There is no MCP server "nosuch" here. See: bridle mcp list'),
        (("remove", "nosuch"), 'There is no MCP server "nosuch" here. See: bridle mcp list'),
        (("logs", "nosuch"), 'There is no MCP server "nosuch" here. See: bridle mcp list'),
        (
            ("add", "add", "true"),
            '"add" cannot be added: "add" is a command of /mcp, so no server can be called that. See: bridle help mcp',
        ),
        (
            ("add", "far", "true"),
            'There is an MCP server "far" already, in settings.json line 1. See: bridle mcp remove',
        ),
        (
            ("add", "new"),
            "What is to be started? bridle mcp add NAME -- CMD ARGS, or bridle mcp add NAME URL",
        ),
        (
            ("add", "new", "https://a.example/", "more"),
            "A server that listens has an address and nothing else. See: bridle help mcp",
        ),
        (("show",), "SERVER is missing. See: bridle help mcp"),
    ],
)
def test_a_mistake_is_one_sentence(place: Place, words: tuple[str, ...], sentence: str) -> None:
    own(place, {"far": {"url": "https://far.example/mcp"}})
    done = place.bridle("mcp", *words)
    assert (done.code, done.out, done.story) == (2, "", [sentence])


def test_a_server_is_started_anew_in_the_sessions_of_the_engine_that_listens(place: Place) -> None:
    started = place.work / "started"
    own(place, {"files": server({"started": str(started)})}, model="demo:hello")
    with starts(started) as pids, serving(place) as served:
        assert place.bridle("mcp", "restart", "files").story == [
            'No session of the engine uses an MCP server "files".'
        ]
        for _ in range(2):
            opened = served.ask(
                "POST", "/v1/sessions", {"cwd": str(place.work), "config": {"sandbox": "off"}}
            )
            assert opened.status < 300, opened.body
        before = int(pids.readline())
        done = place.bridle("mcp", "restart", "files")
        assert (done.code, done.out.partition("  ")[2][:2]) == (0, "up")
        after = int(pids.readline())
        assert (is_running(before), is_running(after)) == (False, True)
        assert select.select([pids], [], [], 0)[0] == [], "once, for both sessions"
        assert place.bridle("mcp", "restart", "nosuch").code == 1
        assert served.stop() == 0
    assert not is_running(after)


def test_a_server_that_does_not_come_back_is_said_and_the_command_fails(place: Place) -> None:
    started, allowed = place.work / "started", place.work / "allowed"
    table = server({"started": str(started)})
    table["command"] = ["sh", "-c", 'test -e allowed && exec "$@"', "sh", *table["command"]]
    allowed.touch()
    own(place, {"files": {**table, "connect_s": 5}}, model="demo:hello")
    with starts(started) as pids, serving(place) as served:
        served.ask("POST", "/v1/sessions", {"cwd": str(place.work), "config": {"sandbox": "off"}})
        assert pids.readline()
        allowed.unlink()
        done = place.bridle("mcp", "restart", "files")
        assert (done.code, "MCP server 'files' is down" in done.out) == (1, True)


def test_without_an_engine_there_is_nothing_to_start_anew(place: Place) -> None:
    done = place.bridle("mcp", "restart", "files")
    assert (done.code, len(done.story)) == (1, 1)
    assert done.story[0].endswith("In one of them: /mcp:restart files")
