"""Files of other tools that name MCP servers, read as our settings; and secrets in them, taken out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.secrets.redact import redact
from bridle.mcp.foreign_files import BadForeignFile, SecretInTheWay, read_foreign, without_secrets
from bridle.mcp.server_definitions import decode_server, fill
from tables import table

SHAPED = "ghp_" + "aB3d" * 9


def servers(path: str, text: str | dict, folder: str = "/p") -> dict:
    data = text if isinstance(text, str) else json.dumps(text)
    found = read_foreign(path, data.encode(), folder=folder, home="/h")
    return {one.name: one for one in found.servers}


def one(path: str, entry: dict, key: str = "mcpServers"):
    (found,) = servers(path, {key: {"x": entry}}).values()
    return found


def test_claude_names_servers_for_everywhere_and_for_a_folder() -> None:
    text = {
        "mcpServers": {"a": {"type": "stdio", "command": "a", "args": [], "env": {}}},
        "projects": {
            "/p": {"mcpServers": {"b": {"type": "sse", "url": "https://b/sse", "headers": {"X": "${X:-x}"}}}},
            "/q": {"mcpServers": {"c": {"command": "c"}}},
        },
        "numStartups": 3,
    }
    found = servers("/h/.claude.json", text)
    assert {name: one.table for name, one in found.items()} == {
        "a": {"command": ["a"], "args": [], "env": {}},
        "b": {"transport": "sse", "url": "https://b/sse", "headers": {"X": "${X:-x}"}},
    }
    assert one("/p/.mcp.json", {"command": "a", "timeout": 2500}).table == {"command": ["a"], "call_s": 2.5}


def test_vs_code_has_remarks_inputs_and_variables_of_its_own() -> None:
    text = """{
      // "servers": {},
      "inputs": [{"type": "promptString", "id": "api-key", "password": true}], /* asked for */
      "servers": {
        "my server": {
          "type": "stdio", "command": "${workspaceFolder}/run", "envFile": "${workspaceFolder}/.env",
          "args": ["${input:api-key}", "${env:WHO}", "http://not.a.remark"],
          "env": {"HOME_OF": "${userHome}", "N": 1, "YES": true, "NONE": null,},
        },
      },
    }"""
    (found,) = servers("/p/.vscode/mcp.json", text).values()
    assert found.name == "my-server"
    assert found.table == {
        "command": ["./run"],
        "args": ["${API_KEY}", "${WHO}", "http://not.a.remark"],
        "env": {"HOME_OF": "${HOME}", "N": "1", "YES": "true"},
    }
    assert found.left_out == (
        "name: it is called my-server here",
        "envFile: the variables in it are not read; write those the server needs into env",
    )


def test_codex_names_variables_instead_of_references() -> None:
    text = """
model = "x"
[mcp_servers.far]
url = "https://far.example/mcp"
bearer_token_env_var = "FAR_TOKEN"
http_headers = { X = "${literal}" }
env_http_headers = { Y = "FAR_Y" }
startup_timeout_sec = 20
tool_timeout_sec = 90
enabled_tools = ["search"]
required = true
[mcp_servers.near]
command = "near"
args = ["${literal}"]
env_vars = ["TERM"]
enabled = false
"""
    found = servers("/h/.codex/config.toml", text)
    assert found["far"].table == {
        "url": "https://far.example/mcp",
        "headers": {"Authorization": "Bearer ${FAR_TOKEN}", "X": "$${literal}", "Y": "${FAR_Y}"},
        "connect_s": 20,
        "call_s": 90,
        "enabled_tools": ["search"],
    }
    assert found["far"].left_out == ("required: there is nothing like it here",)
    assert found["near"].table == {
        "command": ["near"], "args": ["$${literal}"], "env": {"TERM": "${TERM:-}"}, "disabled": True
    }  # fmt: skip
    assert fill("$${literal}", {}) == "${literal}"


@table(
    ("entry", "refused"),
    [
        ({"type": "ws", "url": "wss://x"}, 'it speaks "ws", which is not spoken here'),
        ({"command": "${WHERE}/x"}, "its program is named by a reference: write where it is"),
        (
            {"command": "x", "args": ["${command:pick}"]},
            "${command:pick} cannot be filled here: write its value",
        ),
        ({"command": "x", "url": "https://x"}, "it has both command and url"),
        ({}, "it needs either command or url"),
        ({"command": "x", "env": {"A=B": "c"}}, "a name among its env or headers can be none"),
        ({"url": "https://x", "headers": {"A\nB": "c"}}, "a name among its env or headers can be none"),
        (
            {"command": "x", "env": {"A": "${BRIDLE_TOKEN}"}},
            "BRIDLE_TOKEN is Bridle's own, and no server gets it",
        ),
        (
            {"command": "x", "args": ["${workspaceFolder}"], "cwd": "/else"},
            "it names the folder of the project and starts in another one",
        ),
    ],
)
def test_what_cannot_be_used_says_why(entry: dict, refused: str) -> None:
    assert one("/p/.cursor/mcp.json", entry).refused == refused


def test_a_server_called_like_a_verb_is_refused() -> None:
    (found,) = servers("/p/.mcp.json", {"mcpServers": {"restart": {"command": "x"}}}).values()
    assert "is a command of /mcp" in found.refused


@table("text", ["", "[]", "{}", '{"mcpServers": []}', '{"a": ', "[[[" * 50_000, "\x00"])
@table("path", ["/p/.mcp.json", "/p/config.toml"])
def test_a_file_of_another_kind_is_one_clause(path: str, text: str) -> None:
    with pytest.raises(BadForeignFile):
        servers(path, text)


PLAIN = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20)
LISTS = st.lists(PLAIN, max_size=3)
JSON = PLAIN | LISTS | st.dictionaries(st.text(max_size=9), PLAIN | LISTS, max_size=3)
FIELDS = st.sampled_from(
    [
        "command",
        "args",
        "env",
        "url",
        "headers",
        "type",
        "cwd",
        "timeout",
        "disabled",
        "enabled",
        "env_vars",
        "other",
    ]
)


@given(st.dictionaries(st.text(max_size=20), JSON | st.dictionaries(FIELDS, JSON, max_size=5), max_size=3))
def test_whatever_a_file_says_each_server_can_be_used_or_says_why(entries: dict) -> None:
    for found in servers("/p/.mcp.json", {"mcpServers": entries}).values():
        if not found.refused:
            decode_server(found.name, found.table, part="x")


@given(st.text(alphabet='ab"\\/*,]}[{: \n', max_size=60))
def test_a_text_with_remarks_is_what_json_says_where_it_is_json(text: str) -> None:
    remarked = json.dumps({"mcpServers": {"x": {"command": "c", "env": {"A": text}}}}, indent=1)
    remarked = remarked.replace("\n", " // }\n/* { */ ", 1).replace('"c",', '"c", // ,')[:-1] + ",}"
    (found,) = servers("/p/.mcp.json", remarked).values()
    assert found.table["env"] == {"A": text}


# Secrets


def taken(table: dict, known: tuple[str, ...] = ()):
    return without_secrets("git.hub", table, lambda name: name in known)


def test_secrets_leave_the_settings_and_references_stay() -> None:
    table = {
        "command": ["run"],
        "args": ["--api-key", "quiet", "--token=hush", "--name", "open", SHAPED, "${A}", "--key", "${B}"],
        "env": {"GIT_HUB_TOKEN": SHAPED, "MODE": "fast", "API_KEY": "${C}", "PASSWORD": ""},
    }
    clean, secrets = taken(table, known=("GIT_HUB_TOKEN",))
    assert clean == {
        "command": ["run"],
        "args": [
            "--api-key", "${GIT_HUB_API_KEY}", "--token=${GIT_HUB_TOKEN_3}", "--name", "open", "${GIT_HUB_TOKEN_2}",
            "${A}", "--key", "${B}",
        ],
        "env": {"GIT_HUB_TOKEN": "${GIT_HUB_TOKEN_2}", "MODE": "fast", "API_KEY": "${C}", "PASSWORD": ""},
    }  # fmt: skip
    assert secrets == {"GIT_HUB_API_KEY": "quiet", "GIT_HUB_TOKEN_3": "hush", "GIT_HUB_TOKEN_2": SHAPED}


def test_of_a_header_the_scheme_stays() -> None:
    clean, secrets = taken(
        {"url": "https://x/", "headers": {"Authorization": "Bearer quiet", "X-A": "Bearer ${A}"}}
    )
    assert clean["headers"] == {"Authorization": "Bearer ${GIT_HUB_AUTHORIZATION}", "X-A": "Bearer ${A}"}
    assert secrets == {"GIT_HUB_AUTHORIZATION": "quiet"}


def test_of_an_address_the_rest_stays() -> None:
    clean, secrets = taken({"url": "https://x/mcp?api_key=qu%2Biet&to=all"})
    assert clean["url"] == "https://x/mcp?api_key=${GIT_HUB_API_KEY}&to=all"
    assert fill(clean["url"], secrets) == "https://x/mcp?api_key=qu%2Biet&to=all"


@table(
    "table",
    [
        {"url": "https://me:hush@x/"},
        {"url": f"https://x/{SHAPED}/mcp"},
        {"url": "https://x/", "headers": {"Authorization": "Bearer ${A}" + SHAPED}},
    ],
)
def test_a_secret_that_cannot_be_told_apart_is_refused(table: dict) -> None:
    with pytest.raises(SecretInTheWay):
        taken(table)


@given(
    st.dictionaries(
        st.sampled_from(["GITHUB_TOKEN", "PLAIN", "api-key"]), st.sampled_from([SHAPED, "x", "${A}", ""])
    ),
    st.lists(st.sampled_from(["--token", SHAPED, "x", f"--a={SHAPED}", "${A}"])),
)
def test_nothing_that_looks_like_a_secret_is_written_and_filling_gives_it_back(env: dict, args: list) -> None:
    clean, secrets = taken({"command": ["run"], "args": args, "env": env})
    assert redact(str(clean)).count("redacted") == 0
    values = {**secrets, "A": "${A}"}
    assert [fill(word, values) for word in clean["args"]] == args
    assert {name: fill(value, values) for name, value in clean["env"].items()} == env
