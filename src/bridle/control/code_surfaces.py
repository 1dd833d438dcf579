"""Where the code of a request for a token is shown: to a person who is here, on the terminal, as a desktop notice.

A notice names the code in the arguments of the program that shows it, where programs of the same account can read it:
it is used only by an engine that was started to (`--auth-channel notify`).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping

import msgspec

from bridle.base.process.user_programs import start_detached
from bridle.control.live import LiveSession
from bridle.control.live_sessions import LiveSessions
from bridle.control.minting import Channel, MintRequest, ShownCode, Surfaces
from bridle.engine.open_questions import Client
from bridle.protocol.events import QuestionAnswered, QuestionAsked
from bridle.protocol.questions import TokenAnswer, TokenQuestion


class ShownCodes:
    """Which code was shown to whom, by the id of its question."""

    def __init__(self, live: LiveSessions) -> None:
        self._live = live
        self._shown_to: dict[str, tuple[LiveSession, str]] = {}

    def show(self, question_id: str, question: TokenQuestion) -> bool:
        """Puts a question to one person who follows a session here: at this engine's own terminal, or else with a token
        that mints. False where there is none."""
        people = [
            (live, attachment)
            for live in self._live.all_open().values()
            for attachment in live.attachments.values()
            if attachment.client.can_say_yes and live.follows(attachment.client.id)
        ]
        own = [one for one in people if one[1].claims is None]
        minting = [one for one in people if one[1].claims is not None and one[1].claims.can_mint]
        for live, attachment in (*own, *minting)[:1]:
            live.tell_one(attachment.client.id, QuestionAsked(question_id=question_id, question=question))
            self._shown_to[question_id] = (live, attachment.client.id)
            return True
        return False

    def hide(self, question_id: str) -> None:
        shown = self._shown_to.pop(question_id, None)
        if shown is not None:
            live, client = shown
            answer = QuestionAnswered(question_id=question_id, answer=TokenAnswer(), answered_by="")
            live.tell_one(client, answer)

    def was_shown(self, client: Client, question_id: str) -> bool:
        """Whether a code waits under this id that this client was shown."""
        shown = self._shown_to.get(question_id)
        return shown is not None and shown[1] == client.id


_OF_THE_DESKTOP = (
    "PATH",
    "HOME",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
)


class CodeSurfaces(msgspec.Struct, frozen=True, kw_only=True):
    """The surfaces of this machine: each shows a text and says whether it did."""

    terminal: Callable[[str], bool]
    desktop: Callable[[str], bool]


def machine_surfaces(env: Mapping[str, str], *, notify: bool = False) -> CodeSurfaces:
    """The controlling terminal of this process, if it has one, and the desktop's notices where they are wanted."""
    return CodeSurfaces(
        terminal=show_on_terminal,
        desktop=(lambda text: show_on_desktop(text, env)) if notify else lambda _text: False,
    )


def surfaces_of(codes: ShownCodes, machine: CodeSurfaces) -> Surfaces:
    """The best there is: a person who is here, then the terminal, then the desktop."""

    async def show(shown: ShownCode) -> Channel | None:
        if codes.show(shown.mint_id, _question(shown)):
            return "client"
        text = f"Somebody asks for a token{_for(shown.request)}. Its code: {shown.code}"
        if machine.terminal(text):
            return "terminal"
        return "desktop" if machine.desktop(text) else None

    return Surfaces(show=show, hide=codes.hide)


def _question(shown: ShownCode) -> TokenQuestion:
    asked = shown.request
    return TokenQuestion(
        code=shown.code,
        identity=asked.identity_class,
        sessions=asked.sessions,
        commands=None if asked.commands is msgspec.UNSET else asked.commands,
        name=asked.name,
        can_mint=asked.can_mint,
        life_s=asked.life_s,
    )


def _for(asked: MintRequest) -> str:
    return f" for {asked.name}" if asked.name else ""


def show_on_terminal(text: str) -> bool:
    try:
        fd = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.write(fd, f"\r\n{text}\r\n".encode()) > 0
    except OSError:
        return False
    finally:
        os.close(fd)


def has_desktop(env: Mapping[str, str]) -> bool:
    """Whether somebody sits at a desktop here, as far as the environment tells."""
    return sys.platform == "darwin" or any(env.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def show_on_desktop(text: str, env: Mapping[str, str]) -> bool:
    """As a notice of the desktop; programs of the same account can read it in the list of processes."""
    path = env.get("PATH", os.defpath)
    if program := shutil.which("notify-send", path=path):
        argv = [program, "--urgency=critical", "--expire-time=60000", "Bridle", text]
    elif program := shutil.which("osascript", path=path):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        argv = [program, "-e", f'display notification "{quoted}" with title "Bridle"']
    else:
        return False
    try:
        start_detached(argv, env={name: env[name] for name in _OF_THE_DESKTOP if name in env})
    except Exception:  # noqa: BLE001  whatever stops a notice: the code was not shown
        return False
    return True
