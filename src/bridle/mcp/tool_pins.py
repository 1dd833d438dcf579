"""The tools of a server as a person agreed to them: one whose words or schema are others now is not used. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from bridle.mcp.tool_lists import ListedTool


class ToolVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What of a list was agreed to, and the names of what was not: `changed` and `new` ones wait for a person.
    `gone` are those that were agreed to and are not offered."""

    agreed: tuple[ListedTool, ...] = ()
    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def held_back(self) -> tuple[str, ...]:
        return (*self.changed, *self.new)


def judge_tools(
    pinned: Mapping[str, str], listed: Iterable[ListedTool], uses: Callable[[str], bool] = lambda _name: True
) -> ToolVerdict:
    """What of a list has the digests that were agreed to. Of tools that nobody uses nothing is said."""
    tools = {tool.name: tool for tool in listed}
    same = [name for name, tool in tools.items() if pinned.get(name) == tool.digest()]
    others = [name for name in tools if name not in set(same) and uses(name)]
    return ToolVerdict(
        agreed=tuple(tools[name] for name in same),
        changed=tuple(name for name in others if name in pinned),
        new=tuple(name for name in others if name not in pinned),
        gone=tuple(name for name in pinned if name not in tools and uses(name)),
    )


def tool_digests(tools: Iterable[ListedTool]) -> dict[str, str]:
    return {tool.name: tool.digest() for tool in tools}


def tools_text(tools: Iterable[ListedTool]) -> str:
    """Tools for people, so that two lists can be compared line by line: all that the model would be told, as it is."""
    return "".join(f"{line}\n" for tool in sorted(tools, key=lambda one: one.name) for line in _lines(tool))


def _lines(tool: ListedTool) -> Iterator[str]:
    yield f"tool {tool.name}"
    hints = tool.hints
    if hints.title:
        yield f"  title: {hints.title}"
    for line in tool.description.split("\n"):
        yield f"  says: {line}".rstrip()
    claims = {
        "changes nothing": hints.read_only,
        "can destroy": hints.destructive,
        "may be repeated": hints.idempotent,
        "reaches out": hints.open_world,
    }
    for claim, value in claims.items():
        if value is not None:
            yield f"  claims: {claim}: {'yes' if value else 'no'}"
    schema = msgspec.json.format(msgspec.json.encode(tool.input_schema, order="sorted"), indent=2).decode()
    for line in schema.split("\n"):
        yield f"  input: {line}"
