import os

from hypothesis import given
from hypothesis import strategies as st

from bridle.mcp.tool_lists import KEPT_MS, KeptLists, ListedTool, ToolHints, ToolList, usable

LAUNCH = "a" * 64
LIST = ToolList(
    launch=LAUNCH,
    listed_ms=1_000,
    tools=(ListedTool(name="read", input_schema={"type": "object"}, hints=ToolHints(read_only=True)),),
)


def test_a_list_is_kept_for_the_same_launch_and_not_for_ever(tmp_path):
    kept = KeptLists(str(tmp_path))
    assert kept.read(LAUNCH, 1_000) is None
    kept.keep(LIST)

    assert kept.read(LAUNCH, 1_000) == LIST
    assert kept.read(LAUNCH, 1_000 + KEPT_MS) is None
    assert kept.read(LAUNCH, 999) is None, "it is from the future: the clock was turned back"
    assert kept.read("b" * 64, 1_000) is None
    kept.forget(LAUNCH)
    assert kept.read(LAUNCH, 1_000) is None


def test_a_file_that_says_nothing_is_no_list(tmp_path):
    kept = KeptLists(str(tmp_path))
    kept.keep(LIST)
    (name,) = os.listdir(tmp_path / "mcp" / "lists")
    for spoiled in (b"", b"[1]", b'[9,{"launch":"a","listed_ms":1}]', b"\xff"):
        (tmp_path / "mcp" / "lists" / name).write_bytes(spoiled)
        assert kept.read(LAUNCH, 1_000) is None


@given(st.lists(st.text(max_size=3)), st.randoms())
def test_the_order_of_tools_is_nobodys_mood(names, random):
    tools = [ListedTool(name=name, input_schema={"type": "object"}) for name in names]
    random.shuffle(tools)

    assert [tool.name for tool in usable(tools)[0]] == sorted(set(names))


def test_a_tool_whose_input_is_no_schema_is_named_and_not_used():
    bad = ListedTool(name="b", input_schema={"type": "object", "properties": {"x": {"$ref": "http://a/b"}}})
    good = ListedTool(name="a", input_schema={"type": "object"})

    assert usable([bad, good]) == ((good,), ("b: \"$ref\" leads to 'http://a/b', and nothing is fetched",))
