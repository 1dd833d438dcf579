import re

from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.tool_names import MAX_CHARACTERS, mcp_tool_names, unique_server_parts

NAMES = st.text(
    st.one_of(st.sampled_from("ab_-. "), st.characters(exclude_categories=("Cs",))), min_size=1, max_size=80
)


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), st.lists(NAMES, max_size=5, unique=True))
def test_no_two_tools_of_any_servers_share_a_name_that_every_model_takes(servers, tools):
    parts = unique_server_parts(servers)
    names = [name for server in servers for name in mcp_tool_names(parts[server], tools).values()]

    assert len(set(names)) == len(servers) * len(tools)
    assert all(len(name) <= MAX_CHARACTERS and re.fullmatch(r"mcp__[A-Za-z0-9_-]+", name) for name in names)


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), st.randoms())
def test_names_do_not_depend_on_the_order_a_server_lists_its_tools_in(tools, random):
    shuffled = list(tools)
    random.shuffle(shuffled)

    assert mcp_tool_names("s", shuffled) == mcp_tool_names("s", tools)


def test_a_readable_name_stays_as_it_is():
    parts = unique_server_parts(["files", "a.b", "a_b", "a b_", "é"])

    assert parts == {"files": "files", "a.b": "a_b", "a_b": "a_b_2", "a b_": "a_b_3", "é": parts["é"]}
    assert re.fullmatch("_[0-9a-f]{8}", parts["é"])
    assert mcp_tool_names("files", ["a.b", "a_b"]) == {
        "a_b": "mcp__files__a_b",
        "a.b": "mcp__files__a_b_2",
    }
