"""`bridle mcp` for the servers a session has: real commands, and real processes of `mcp_server.py`."""

import json

import pytest

from bridle.app.project_trust import project_items
from bridle.config.folders import folders
from bridle.safety.trust import Approvals
from cli_kit import Place
from mcp_kit import server


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
    secret = "sk-ant-" + "api03-" + "Qz7" * 15
    own(place, {"far": {"command": ["serve-it", "--key", secret]}})
    assert secret not in place.bridle("mcp", "list").out + place.bridle("mcp", "show", "far", "--json").out


def test_without_servers_the_list_says_how_to_name_one(place: Place) -> None:
    done = place.bridle("mcp", "list")
    assert (done.code, done.out) == (0, "No MCP servers. How to name one: bridle help mcp\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "fra"), 'There is no MCP server "fra" here. Did you mean far? See: bridle mcp list'),
        (("show",), "NAME is missing. See: bridle help mcp"),
    ],
)
def test_a_mistake_is_one_sentence(place: Place, words: tuple[str, ...], sentence: str) -> None:
    own(place, {"far": {"url": "https://far.example/mcp"}})
    done = place.bridle("mcp", *words)
    assert (done.code, done.out, done.story) == (2, "", [sentence])
