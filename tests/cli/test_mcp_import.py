"""`bridle mcp import` and `secret`: files of other tools become our settings, without the secrets in them."""

import json
import tomllib
from typing import Any

import pytest

from cli_kit import Place
from cli_terminal import sitting
from mcp_kit import server

KEY = "ghp_" + "aB3d" * 9


def claude(place: Place, servers: dict[str, Any], name: str = ".mcp.json") -> str:
    (place.work / name).parent.mkdir(exist_ok=True)
    (place.work / name).write_text(json.dumps({"mcpServers": servers}))
    return str(place.work / name)


def own(place: Place) -> dict[str, Any]:
    file = place.home / ".config/bridle/config.toml"
    return tomllib.loads(file.read_text())["mcp_servers"] if file.exists() else {}


def everything(place: Place) -> str:
    files = [file for file in place.home.rglob("*") if file.is_file()]
    return "".join(file.read_bytes().decode("latin-1") for file in files)


def test_a_secret_goes_into_the_store_and_the_server_gets_it(place: Place) -> None:
    table = server({"named": [{"name": "look"}], "die": ""})
    program, *words = table["command"]
    claude(
        place,
        {"git": {"command": program, "args": words, "env": {"GITHUB_TOKEN": KEY}, "alwaysAllow": ["look"]}},
    )
    done = place.bridle("mcp", "import", ".mcp.json", "--yes")
    assert done.code == 0, done.err
    assert "  left out: alwaysAllow: who may call what is said by permissions here" in done.out.splitlines()
    assert own(place)["git"]["env"] == {"GITHUB_TOKEN": "${GIT_GITHUB_TOKEN}"}
    assert KEY not in done.out + everything(place)
    assert place.bridle("mcp", "test", "git", "--set", 'mcp_servers.git.sandbox="off"').code == 0
    listed = place.bridle("login", "--list").out
    assert listed.startswith("mcp-value:GIT_GITHUB_TOKEN")
    assert place.bridle("mcp", "secret", "GIT_GITHUB_TOKEN", "--remove").code == 0
    done = place.bridle("mcp", "test", "git", "--set", 'mcp_servers.git.sandbox="off"')
    assert done.code == 1
    assert (
        "GIT_GITHUB_TOKEN has no value: set that variable, or store one with: bridle mcp secret"
        in done.story[0]
    )


def test_the_filled_value_reaches_the_server_and_no_log_of_it(place: Place) -> None:
    table = server({"die": f"it is {KEY}"})
    program, *words = table["command"]
    words[-1] = words[-1].replace(KEY, "${A_KEY}")
    claude(place, {"git": {"command": program, "args": words}})
    assert place.bridle("mcp", "secret", "A_KEY", stdin=f"{KEY}\n").out == (
        "Stored. In settings of MCP servers: ${A_KEY}\n"
    )
    assert place.bridle("mcp", "import", "--yes").code == 0
    done = place.bridle("mcp", "test", "git", "--set", 'mcp_servers.git.sandbox="off"')
    assert (done.code, "it is " in done.err) == (1, True)
    assert KEY not in done.out + done.err + everything(place)


def test_nothing_is_written_before_a_person_said_so(place: Place) -> None:
    claude(place, {"git": {"command": "git-server", "env": {"TOKEN": KEY}}})
    shown = place.bridle("mcp", "import", "--dry-run")
    assert shown.out.splitlines() == [
        f"git  from {place.work}/.mcp.json",
        "  [mcp_servers.git]",
        '  command = ["git-server"]',
        "  [mcp_servers.git.env]",
        '  TOKEN = "${GIT_TOKEN}"',
        "  stored: a secret of the file, as GIT_TOKEN, in the credential store",
        f"1 server for {place.home}/.config/bridle/config.toml",
    ]
    done = place.bridle("mcp", "import", stdin="y\n")
    assert (done.code, done.story) == (
        2,
        ["Nobody can be asked here: --yes writes them, --dry-run only shows them"],
    )
    with sitting(place, "mcp", "import") as person:
        person.sees("Write 1 server? y/N")
        person.types("n\n")
        assert person.ends() == 3
    assert own(place) == {}
    assert place.bridle("login", "--list").out.startswith("Nothing is stored")


def test_at_a_terminal_a_person_picks_among_the_files_there_are(place: Place) -> None:
    claude(place, {"one": {"command": "one"}})
    claude(place, {"two": {"command": "two"}}, ".cursor/mcp.json")
    with sitting(place, "mcp", "import") as person:
        person.sees("Claude", "Cursor", "Which?")
        person.types("2\n")
        person.sees("Write 1 server? y/N")
        person.types("y\n")
        person.sees("Written: two.")
        assert person.ends() == 0
    assert list(own(place)) == ["two"]
    done = place.bridle("mcp", "import")
    assert (done.code, len(done.story)) == (2, 1)
    assert done.story[0].startswith("Which file? bridle mcp import FILE. There are: ")


def test_a_server_of_that_name_stays_as_it_is(place: Place) -> None:
    assert place.bridle("mcp", "add", "git", "--", "mine").code == 0
    claude(place, {"git": {"command": "theirs", "env": {"TOKEN": KEY}}, "new": {"command": "new"}})
    done = place.bridle("mcp", "import", "--yes", "--json")
    first, second = json.loads(done.out)
    assert (first["verdict"], first["why"]) == ("there already", "in config.toml line 1")
    assert (second["verdict"], second["settings"]) == ("add", {"command": ["new"]})
    assert own(place) == {"git": {"command": ["mine"]}, "new": {"command": ["new"]}}
    assert place.bridle("login", "--list").out.startswith("Nothing is stored")


def test_two_files_with_the_same_name_are_not_written_over_each_other(place: Place) -> None:
    claude(place, {"git": {"command": "one"}})
    claude(place, {"git": {"command": "two"}}, ".cursor/mcp.json")
    rows = json.loads(place.bridle("mcp", "import", "--yes", "--json").out)
    assert [row["verdict"] for row in rows] == ["add", "there already"]
    assert own(place) == {"git": {"command": ["one"]}}


def test_what_our_settings_do_not_take_is_refused_before_anything_is_written(place: Place) -> None:
    claude(
        place, {"good": {"command": "x"}, "bad": {"url": "file:///x"}, "re\x1b[31md\u202e": {"command": "y"}}
    )
    rows = json.loads(place.bridle("mcp", "import", "--yes", "--json").out)
    assert [(row["name"], row["verdict"]) for row in rows] == [
        ("good", "add"),
        ("bad", "cannot be used"),
        ("re-[31md", "add"),
    ]
    assert "is not an address that begins with http" in rows[1]["why"]
    assert list(own(place)) == ["good", "re-[31md"]


def test_without_a_file_there_is_nothing_to_do(place: Place) -> None:
    done = place.bridle("mcp", "import")
    assert (done.code, done.out) == (0, "No file of another tool names MCP servers here.\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("import", "nosuch"), "{work}/nosuch cannot be read: No such file or directory"),
        (
            ("import", "x.json"),
            "{work}/x.json: it cannot be read as JSON. Known are files of Claude, Cursor, VS Code and Codex",
        ),
        (
            ("secret", "A B"),
            '"A B" cannot be stored: a name is letters, digits and _, and does not begin with BRIDLE_',
        ),
        (
            ("secret", "BRIDLE_PASSPHRASE"),
            '"BRIDLE_PASSPHRASE" cannot be stored: a name is letters, digits and _, and does not begin with BRIDLE_',
        ),
        (("secret", "A"), "No value was given; nothing was stored"),
        (("secret", "A", "--remove"), "Nothing is stored as A"),
    ],
)
def test_a_mistake_is_one_sentence(place: Place, words: tuple[str, ...], sentence: str) -> None:
    (place.work / "x.json").write_text("{")
    done = place.bridle("mcp", *words, stdin="")
    assert (done.out, done.story) == ("", [sentence.format(work=place.work)])
    assert done.code != 0
