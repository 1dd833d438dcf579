"""The steps before a conversation: resume picker, trust, wide folder, first model.

Every client of a person takes the same steps in the same order; how it asks is its own (`OpeningHost`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from bridle.clients.interaction.composer.picker import Deed, Listed, Picker, listed
from bridle.clients.interaction.render.start_info import folder_words
from bridle.protocol.commands import BranchSession, CreateSession, DeleteSession, PinSession, RenameSession
from bridle.protocol.connection import Connection
from bridle.protocol.errors import BridleError, CommandRefused
from bridle.protocol.queries import DescribeSession, ListSessions, PreviewSession, SessionPreview

ChangeSession: TypeAlias = Callable[[Deed], Awaitable[tuple[Listed, ...]]]
"""Changes a session of the list and lists what there is now; after a fork the new one stands first."""

_MODEL_FROM: Final = {"": "", "command": "--model", "environment": "BRIDLE_MODEL", "settings": "config"}
"""The places that a model comes from, as users write them."""


class OpeningHost(Protocol):
    """The program that starts a client. It asks the user before there is a session."""

    async def pick_session(self, picker: Picker, change: ChangeSession) -> str | None:
        """Return the session that the user picked; None: they left."""
        ...

    async def request_session(self, resume: str | None) -> CreateSession:
        """Return the session that the options ask for, or this one to resume."""
        ...

    def review_settings(self, path: str) -> bool:
        """Ask whether a settings file of the project is trusted."""
        ...

    def accept_folder(self, folder: str, why: str) -> bool:
        """Ask whether the user means to work in a folder that holds more than a project."""
        ...

    async def choose_model(self, create: CreateSession) -> tuple[str, str] | None:
        """Return a model for a user who named none, and where it comes from; None: they left."""
        ...


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is ready to be created."""

    create: CreateSession
    about: SessionPreview
    model_from: str


async def prepare_session(
    connection: Connection, host: OpeningHost, *, resume: str | None = None, folder_named: bool = False
) -> Opening | None:
    """Take the steps before a conversation; None where the user left at one of them.

    A folder that was named is not asked about.
    """
    create = await host.request_session(resume)
    about = await _preview(connection, create, host)
    if not folder_named and about.wide:
        if not host.accept_folder(about.cwd, about.wide):
            return None
        config = msgspec.structs.replace(create.config, wide_folder=about.cwd)
        create = msgspec.structs.replace(create, config=config)
    model_from = _MODEL_FROM[about.model_from]
    if create.resume is None and about.model is None:
        chosen = await host.choose_model(create)
        if chosen is None:
            return None
        model, model_from = chosen
        create = msgspec.structs.replace(create, model=model)
    return Opening(create=create, about=about, model_from=model_from)


async def _preview(connection: Connection, create: CreateSession, host: OpeningHost) -> SessionPreview:
    """Preview the session. One that is resumed may have a profile that the user was not asked about yet."""
    try:
        return await connection.ask(PreviewSession(create=create))
    except BridleError as refused:
        asked = create.resume is None or create.profile is not None
        if asked or refused.reason != "SettingsNotAgreed" or not host.review_settings(refused.data["path"]):
            raise
        return await connection.ask(PreviewSession(create=create))


async def pick_stored_session(
    connection: Connection, host: OpeningHost, *, here: str, home: str, now_ms: Callable[[], int]
) -> str | None:
    """Have the user pick a session to resume, of the folder `here` or of all. Raises `CommandRefused` without one."""

    async def list_sessions() -> tuple[Listed, ...]:
        return await list_stored_sessions(connection, here=here, home=home, now_ms=now_ms())

    async def change(deed: Deed) -> tuple[Listed, ...]:
        await change_session(connection, deed)
        return await list_sessions()

    sessions, folder = await list_sessions(), folder_words(here, home)
    if not sessions:
        raise CommandRefused("NoSessionHere", cwd=folder)
    everywhere = not any(session.here for session in sessions)
    picker = Picker(sessions=sessions, folder=folder, all_folders=everywhere, changes=True)
    return await host.pick_session(picker, change)


async def list_stored_sessions(
    connection: Connection, *, here: str, home: str, now_ms: int
) -> tuple[Listed, ...]:
    """Return every session in which something was said, the one used last first."""
    found = (await connection.ask(ListSessions())).sessions
    return tuple(listed(one, now_ms=now_ms, here=here, home=home) for one in found)


async def change_session(connection: Connection, deed: Deed) -> None:
    """Do something to a session of the list. Raises `BridleError` when it is refused."""
    match deed.what:
        case "fork":
            await connection.send(BranchSession(session=deed.id))
        case "pin":
            pinned = (await connection.ask(DescribeSession(session=deed.id))).session.pinned
            await connection.send(PinSession(session=deed.id, pinned=not pinned))
        case "rename":
            await connection.send(RenameSession(session=deed.id, title=deed.title))
        case "delete":
            await connection.send(DeleteSession(session=deed.id))
