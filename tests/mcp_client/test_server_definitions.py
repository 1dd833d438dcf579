import pytest

from bridle.mcp.server_definitions import BadServer, ServerDefinition, decode_server, launch_hash
from tables import table

ODD_NAME = "its name has blanks, one of :/\\@, characters that are not shown, or more than 64"


def decoded(*, of_project=False, **table) -> ServerDefinition:
    return decode_server("files", table, part="files", of_project=of_project)


def test_a_server_is_a_command_with_its_words_or_an_address():
    assert decoded(command=["npx", "-y"], args=["server", "."], env={"A": "1"}) == ServerDefinition(
        name="files", part="files", transport="stdio", argv=("npx", "-y", "server", "."), env={"A": "1"}
    )
    assert decoded(command="my server").argv == ("my server",)
    assert decoded(url="https://example.org/mcp", headers={"A": "b"}) == ServerDefinition(
        name="files", part="files", transport="http", url="https://example.org/mcp", headers={"A": "b"}
    )
    assert decoded(url="https://example.org/sse", transport="sse").transport == "sse"


@table(
    ("name", "table", "problem"),
    [
        ("restart", {"command": "x"}, '"restart" is a command of /mcp, so no server can be called that'),
        ("a:b", {"command": "x"}, ODD_NAME),
        ("a\u202eb", {"command": "x"}, ODD_NAME),
        ("a\x9bb", {"command": "x"}, ODD_NAME),
        ("a", {}, "it needs either command or url"),
        ("a", {"command": "x", "url": "http://a"}, "it has both command and url"),
        ("a", {"command": "x", "transport": "sse"}, "a server with a command speaks stdio"),
        ("a", {"url": "http://a", "transport": "stdio"}, "a server with a url speaks http or sse"),
        ("a", {"url": "http://a", "sandbox": "off"}, "it goes with a command"),
        ("a", {"command": "x", "headers": {}}, "it goes with a url"),
    ],
)
def test_what_means_nothing_is_said_in_one_clause(name, table, problem):
    with pytest.raises(BadServer) as refused:
        decode_server(name, table, part=name)
    assert str(refused.value) == problem


@table(("key", "value"), [("sandbox", "off"), ("read_only_trusted", True)])
def test_a_server_that_a_project_has_a_say_in_gets_nothing_looser(key, value):
    assert getattr(decoded(command="x", **{key: value}), key) == value
    with pytest.raises(BadServer) as refused:
        decoded(of_project=True, command="x", **{key: value})
    assert refused.value.key == key


def test_which_tools_are_used():
    assert decoded(command="x").uses("read")
    some = decoded(command="x", enabled_tools=["read", "list"], disabled_tools=["list"])
    assert [some.uses(tool) for tool in ("read", "list", "write")] == [True, False, False]
    assert not decoded(command="x", enabled_tools=[]).uses("read")


def test_many_tools_are_searched_for_unless_settings_say_otherwise():
    assert [decoded(command="x").is_lazy(count) for count in (20, 21)] == [False, True]
    assert decoded(command="x", lazy_above=3).is_lazy(4)
    assert decoded(command="x", discovery="lazy").is_lazy(1)
    assert not decoded(command="x", discovery="eager").is_lazy(500)


def test_a_launch_is_told_from_another_by_all_that_is_started():
    one = launch_hash(decoded(command="x", env={"A": "1", "B": "2"}), "/here")
    assert one == launch_hash(decoded(command="x", env={"B": "2", "A": "1"}, call_s=3), "/here")
    others = [
        launch_hash(decoded(command="y", env={"A": "1", "B": "2"}), "/here"),
        launch_hash(decoded(command="x", env={"A": "1", "B": "3"}), "/here"),
        launch_hash(decoded(command="x", env={"A": "1", "B": "2"}), "/there"),
        launch_hash(decoded(command="x", cwd="sub", env={"A": "1", "B": "2"}), "/here"),
    ]
    assert len({one, *others}) == 5
