"""`bridle conformance`: check a session server over any transport."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Mapping

import msgspec

from bridle.cli.console import say, say_json
from bridle.cli.verbs.rows import Args, Env
from bridle.clients.engine_address import engine_address
from bridle.conformance.scratch_server import TRANSPORTS, scratch_doors, ways_to
from bridle.conformance.token_desks import FileDesk
from bridle.conformance.wire_doors import ServedDoor
from bridle.conformance.wire_scenarios import Door
from bridle.conformance.wire_score import Played, Scorecard, badge_of, score
from bridle.control.token_files import read_token_file
from bridle.protocol.errors import UsageError
from bridle.protocol.tokens import claims_said


def conformance(parsed: Args, env: Env) -> int:
    _check_words(parsed)
    cards = asyncio.run(_of_ourselves(parsed) if parsed.self else _of_another(parsed))
    conforms = all(card.conforms for card in cards)
    badge = badge_of(cards)
    if parsed.badge is not None:
        _write_badge(parsed.badge, msgspec.json.encode(badge))
    told = {"conforms": conforms, "badge": badge, "transports": cards}
    code = say_json(told) if parsed.json else say(_totals(cards))
    return code or (0 if conforms else 1)


def _check_words(parsed: Args) -> None:
    if parsed.badge is not None:
        _check_badge(parsed.badge)
    if parsed.self == (parsed.against is not None):
        raise UsageError("bridle conformance takes --self, or --against URL: one of the two")
    if parsed.self:
        given = [
            option
            for option, value in (
                ("--token-file", parsed.token_file),
                ("--agent-token-file", parsed.agent_token_file),
                ("--cwd", parsed.cwd),
                ("--models", parsed.models),
                ("--ca-file", parsed.ca_file),
            )
            if value
        ]
        if given:
            raise UsageError(
                f"{' and '.join(given)} are for --against: with --self the engine brings all of it"
            )
        return
    if parsed.against.partition(":")[0] == "stdio":
        raise UsageError(
            "There is no transport over stdin and stdout: a server is reached at http://HOST:PORT, https://HOST:PORT "
            "or unix:///PATH, by requests with server-sent events and by WebSocket"
        )
    engine_address(parsed.against)  # the addresses it takes, with its sentences for others
    if not parsed.token_file:
        raise UsageError(f"{parsed.against} wants a token: --token-file FILE")
    if parsed.cwd is not None and not os.path.isabs(parsed.cwd):
        raise UsageError(f'--cwd is a folder of the server, from its root: "{parsed.cwd}" is not')
    if parsed.transport not in ("all", *_transports_of(parsed.against)):
        names = " or ".join(_transports_of(parsed.against))
        raise UsageError(f"{parsed.against} is tried over {names}, not over {parsed.transport}")


def _transports_of(url: str) -> tuple[str, ...]:
    kind = "unix" if url.startswith("unix:") else "tcp"
    return (f"rest-{kind}", f"ws-{kind}")


async def _of_ourselves(parsed: Args) -> list[Scorecard]:
    wanted = TRANSPORTS if parsed.transport == "all" else (parsed.transport,)
    with tempfile.TemporaryDirectory(prefix="bridle-conformance-") as folder:
        async with scratch_doors(os.path.join(folder, "scratch"), wanted) as doors:
            return await _scores(doors, parsed)


async def _of_another(parsed: Args) -> list[Scorecard]:
    people, agents = (
        [_opening_token(path) for path in paths] for paths in (parsed.token_file, parsed.agent_token_file)
    )
    ways = ways_to(parsed.against, ca_file=parsed.ca_file)
    doors: dict[str, Door] = {
        name: ServedDoor(
            way,
            FileDesk(people, agents),
            cwd=parsed.cwd or os.getcwd(),
            models="demo:" if parsed.models is None else parsed.models,
        )
        for name, way in zip(_transports_of(parsed.against), ways.values(), strict=True)
        if parsed.transport in ("all", name)
    }
    for door in doors.values():  # somebody has to answer and to take the token, else there is nothing to try
        await door.knock(people[0])
    return await _scores(doors, parsed)


def _opening_token(path: str) -> str:
    """A token that may open sessions, as far as it says of itself; a server of another kind may say nothing here."""
    token = read_token_file(path)
    claims = claims_said(token)
    if claims is not None and not (
        claims.covers_command("CreateSession") and (claims.opens or claims.sessions is msgspec.UNSET)
    ):
        raise UsageError(
            f"The token of {path} may not open sessions, and each scenario opens one: give the one the server was "
            "started with"
        )
    return token


async def _scores(doors: Mapping[str, Door], parsed: Args) -> list[Scorecard]:
    def told(played: Played) -> None:
        if not parsed.json:
            why = f"   {played.why}" if played.why else ""
            say(f"  {played.outcome:8}  {played.name:28}{why or f'   {played.says}'}\n")

    cards: list[Scorecard] = []
    for name, door in doors.items():
        against = f"{parsed.against} over {name}" if parsed.against else name
        if not parsed.json:
            say(f"{against}\n")
        cards.append(await score(door, against=against, told=told))
    return cards


def _totals(cards: list[Scorecard]) -> str:
    lines = [
        f"{card.against}: {card.passed} passed, {card.failed} failed, {card.left_out} left out"
        for card in cards
    ]
    word = "conforms" if all(card.conforms for card in cards) else "does not conform"
    return "\n".join(["", *lines, f"It {word} to protocol {cards[0].protocol_version}.", ""])


def _check_badge(path: str) -> None:
    """Before a run of minutes, not after it."""
    folder = os.path.dirname(path) or "."
    why = (
        errno.EISDIR
        if os.path.isdir(path)
        else errno.ENOENT
        if not os.path.isdir(folder)
        else errno.EACCES
        if not os.access(path if os.path.exists(path) else folder, os.W_OK)
        else 0
    )
    if why:
        raise UsageError(f"--badge: {path} cannot be written ({os.strerror(why)})")


def _write_badge(path: str, badge: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(badge + b"\n")
    except OSError as problem:
        raise UsageError(f"--badge: {path} cannot be written ({problem.strerror})") from None
