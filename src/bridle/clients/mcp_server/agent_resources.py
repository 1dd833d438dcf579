"""What an outer agent can read: every address there is, and what stands at each. Only what the engine shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bridle.clients.mcp_server.agent_door import (
    KINDS,
    NAMED,
    SKILLS,
    AgentDoor,
    Kind,
    last_event,
    page_of,
    read_uri,
    unknown_resource,
    uri_of,
)
from bridle.clients.mcp_server.agent_tools import BANNER
from bridle.protocol import queries as q
from bridle.protocol.slash_arguments import ANY_WORDS, args_schema

JSON, LINES, PLAIN = "application/json", "application/x-ndjson", "text/plain"
_OF_SESSION: tuple[Kind, ...] = ("session", "session/events", "session/log")
EVENTS = 200
"""So many events stand at the address of a session's events at once."""
_AT_ONCE = 1000
_LOG_BYTES = 4 * 1024 * 1024

ABOUT: Mapping[Kind, tuple[str, str]] = {
    "sessions": ("Sessions", "The sessions that this client may see."),
    "profiles": ("Profiles", "The profiles a session can be begun with, by name."),
    "providers": ("Providers", "The providers whose models the sessions here use."),
    "tools": ("Tools", "What the agent of the session used last can call."),
    "skills": ("Skills", "The skills and named prompts that run_agent_with_shell_access takes as a skill."),
    "runtime": ("Runtime", "Version, health and abilities of the engine, and what these tools may do."),
    "session": ("Session", "A session, who is in it, and its last events."),
    "session/events": (
        "Events",
        "The last events of a session; ?since=ID for what came behind one. Subscribe to it.",
    ),
    "session/log": ("Log", "Everything in the log of a session, one event a line."),
    "profile": ("Profile", "What a profile sets."),
    "provider/models": ("Models", "What is known of the models of a provider, with prices."),
    "skill": ("Skill", "The words of a skill, or of a named prompt."),
}
"""What people and models read of each kind of address: its title, and what stands there."""


class ResourceText(msgspec.Struct, frozen=True, kw_only=True):
    uri: str
    mime_type: str
    text: str


class ListedResource(msgspec.Struct, frozen=True, kw_only=True):
    uri: str
    name: str
    title: str
    about: str
    mime_type: str


def mime_type_of(kind: Kind) -> str:
    return {"session/log": LINES, "skill": PLAIN}.get(kind, JSON)


async def list_resources(door: AgentDoor | None, cursor: str) -> tuple[list[ListedResource], str | None]:
    """A page of what can be read now: what has no name, then every session; without a door only the first."""
    listed = [_listed(kind) for kind in KINDS if kind not in NAMED]
    for one in (await door.connection.ask(q.ListSessions())).sessions if door is not None else ():
        listed += [_listed(kind, one.id, one.title) for kind in _OF_SESSION]
    page, next_cursor = page_of(listed, cursor)
    return list(page), next_cursor


def _listed(kind: Kind, name: str = "", of: str = "") -> ListedResource:
    title, about = ABOUT[kind]
    return ListedResource(
        uri=uri_of(kind, name),
        name="/".join(filter(None, (kind, name))),
        title=f"{title} of {of or name}" if name else title,
        about=about,
        mime_type=mime_type_of(kind),
    )


async def read_resource(door: AgentDoor, uri: str) -> ResourceText:
    """What stands at an address. Raises `UnknownResource`, or why the engine does not show it."""
    address = read_uri(uri)
    ask, name = door.connection.ask, address.name
    match address.kind:
        case "sessions":
            value: Any = await ask(q.ListSessions())
        case "session":
            value = await ask(q.DescribeSession(session=name, events=EVENTS // 4))
        case "session/events":
            value = await _events(door, name, address.since)
        case "session/log":
            return ResourceText(uri=uri, mime_type=LINES, text=await _log(door, name, address.since))
        case "profiles":
            value = await ask(q.ListProfiles())
        case "profile":
            value = await ask(q.DescribeProfile(name=name))
        case "providers":
            value = {"providers": await _providers(door)}
        case "provider/models":
            value = await ask(q.ListModels(provider=name))
        case "tools":
            value = await _tools(door)
        case "skills":
            skills = [{"name": one.name, "about": one.description} for one in await door.skills()]
            prompts = [{"name": one.name, "about": one.description} for one in await named_prompts(door)]
            value = {"skills": [*skills, *prompts]}
        case "skill":
            if any(one.name == name for one in await door.skills()):
                return ResourceText(uri=uri, mime_type=PLAIN, text=await door.skill_words(name))
            words = next((one.words for one in await named_prompts(door) if one.name == name), None)
            if words is None:
                raise unknown_resource(uri)
            return ResourceText(uri=uri, mime_type=PLAIN, text=words)
        case "runtime":
            health = msgspec.to_builtins(await ask(q.CheckHealth()))
            value = {**health, "features": door.connection.hello.features, "banner": BANNER}
    return ResourceText(uri=uri, mime_type=JSON, text=msgspec.json.encode(value).decode())


async def named_prompts(door: AgentDoor) -> list[q.SlashEntry]:
    """The slash commands that are words for the model: what an agent may have run."""
    return [one for one in (await door.connection.ask(q.ListSlash())).commands if one.words]


async def listed_prompts(door: AgentDoor) -> list[q.SlashEntry]:
    """Everything that is words for the model: named prompts, then every skill."""
    skills = [
        q.SlashEntry(
            name=f"{SKILLS}{one.name}", description=one.description, args_schema=args_schema((ANY_WORDS,))
        )
        for one in await door.skills()
    ]
    return [*await named_prompts(door), *skills]


async def prompt_named(door: AgentDoor, name: str) -> q.SlashEntry | None:
    """A named prompt or a skill with its words; None where there is none of this name."""
    found = next((one for one in await listed_prompts(door) if one.name == name), None)
    if found is None or found.words:
        return found
    return msgspec.structs.replace(found, words=await door.skill_words(name.removeprefix(SKILLS)))


async def _events(door: AgentDoor, session: str, since: int) -> dict[str, Any]:
    found = await door.connection.ask(q.DescribeSession(session=session, events=EVENTS, since=since or None))
    last = last_event(found.events, since)
    following = uri_of("session/events", found.session.id, since=last)
    return {"session": found.session.id, "events": found.events, "last": last, "next": following}


async def _log(door: AgentDoor, session: str, since: int) -> str:
    """The events above an id, one a line; where that is too much at once, the last line says where it goes on."""
    lines: list[bytes] = []
    size = 0
    while True:
        query = q.DescribeSession(session=session, events=_AT_ONCE, since=since)
        events = (await door.connection.ask(query)).events
        for raw in events:
            size += len(raw)
            if size > _LOG_BYTES and lines:
                more = {"kind": "More", "uri": uri_of("session/log", session, since=last_event(lines, since))}
                return _joined([*lines, msgspec.json.encode(more)])
            lines.append(bytes(raw))
        if len(events) < _AT_ONCE:
            return _joined(lines)
        since = last_event(events, since)


def _joined(lines: list[bytes]) -> str:
    return b"".join(line + b"\n" for line in lines).decode()


async def _providers(door: AgentDoor) -> list[dict[str, Any]]:
    """Those of the sessions this client sees: which keys a person has besides is theirs to know."""
    sessions = (await door.connection.ask(q.ListSessions())).sessions
    names = dict.fromkeys((one.model or "").partition(":")[0] for one in sessions)
    return [{"name": name, "models": uri_of("provider/models", name)} for name in names if name]


async def _tools(door: AgentDoor) -> Any:
    """Tools are a session's own: without one there are none yet."""
    if not door.current:
        return {"session": None, "tools": []}
    session = await door.attached(door.current)
    found = await door.connection.ask(q.ListTools(session=session))
    return {"session": session, **msgspec.to_builtins(found)}
