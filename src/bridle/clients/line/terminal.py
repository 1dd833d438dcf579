"""The terminal itself: its modes, its bytes, its size, and what it may be sent.

Keys come one by one and unechoed while `raw` holds, and the settings found are put back whatever happens. Input that
is no terminal is read in lines. Output goes through one `write`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import select
import signal
import termios
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import msgspec

from bridle.base.text.terminal_text import visible_line
from bridle.clients.interaction.composer.keys import Key
from bridle.clients.line.terminal_keys import KeyDecoder, LineDecoder

READ_BYTES: Final = 64 * 1024
ESCAPE_S: Final = 0.05
"""An escape that stays alone for this long is the Esc key."""
DEFAULT_COLUMNS: Final = 80
DEFAULT_ROWS: Final = 24
COPY_BYTES: Final = 74_994
"""What every terminal that copies takes at once: 100,000 characters of base64 with the code around it."""

Notify: TypeAlias = Literal["off", "bell", "osc9", "osc777"]

_PASTE_ON: Final = "\x1b[?2004h"
_PASTE_OFF: Final = "\x1b[?2004l"
_ASCII: Final = str.maketrans(
    {
        "\u203a": ">",
        "·": "-",
        "…": "...",
        "\u2212": "-",
        "↳": ">",
        "—": "-",
        "●": "*",
        "★": "*",
        "✓": "x",
        "▸": ">",
        "⟨": "<",
        "⟩": ">",
        "\u00d7": "x",
        "│": "|",
        "─": "-",
        "┼": "+",
        "├": "+",
        "└": "+",
        "→": "->",
    }
)


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What may be sent. `codes` allows escape codes at all, `colour` the coloured ones.

    `moves` allows drawing over the prompt; `reader` is for people who listen: append-only, nothing repainted, words
    where others see places. `links` are places a click opens (OSC 8). A terminal that `reflows` breaks what stands on
    it anew when it gets narrower.
    """

    codes: bool = False
    colour: bool = False
    moves: bool = False
    reader: bool = False
    unicode: bool = True
    links: bool = False
    reflows: bool = True
    notify: Notify = "bell"
    tmux: bool = False


def look_of(env: Mapping[str, str], *, terminal: bool, plain: bool = False) -> Look:
    """What the environment says of the terminal; `plain` is `--plain`. An empty variable counts as unset."""
    reader = plain or bool(env.get("BRIDLE_PLAIN") or env.get("ACCESSIBLE"))
    forced = bool(env.get("FORCE_COLOR")) and env.get("FORCE_COLOR") != "0"
    codes = terminal and env.get("TERM", "") not in ("", "dumb") and not reader
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    return Look(
        codes=codes,
        colour=codes and (forced or not env.get("NO_COLOR")),
        moves=codes,
        reader=reader,
        unicode=locale not in ("C", "POSIX"),
        links=codes and _opens_links(env),
        reflows=not env.get("XTERM_VERSION") and env.get("TERM") != "linux",
        notify=_notify(env) if codes else "bell",
        tmux=bool(env.get("TMUX")),
    )


def _opens_links(env: Mapping[str, str]) -> bool:
    """Whether the terminal is one that is known to. Behind a multiplexer nobody can tell."""
    term, vte = env.get("TERM", ""), env.get("VTE_VERSION", "")
    if env.get("TMUX") or term.startswith(("screen", "tmux")):
        return False
    return (
        env.get("TERM_PROGRAM", "") in ("iTerm.app", "WezTerm", "ghostty", "vscode")
        or term.startswith(("xterm-kitty", "xterm-ghostty", "foot", "alacritty"))
        or (vte.isdecimal() and int(vte) >= 5000)
        or any(env.get(name) for name in ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM"))
    )


def _notify(env: Mapping[str, str]) -> Notify:
    program = env.get("TERM_PROGRAM", "")
    if program in ("iTerm.app", "WezTerm", "ghostty") or env.get("TERM", "").startswith("xterm-kitty"):
        return "osc9"
    return "osc777" if env.get("TERM", "").startswith(("rxvt", "foot")) else "bell"


class Terminal:
    """A pair of descriptors a person sits at, or a pipe in their place. `put` writes in place of the descriptor."""

    def __init__(
        self,
        *,
        input_fd: int = 0,
        output_fd: int = 1,
        look: Look,
        stop: Callable[[], None] | None = None,
        put: Callable[[bytes], object] | None = None,
    ) -> None:
        self.look = look
        self.interactive = os.isatty(input_fd)
        self._input_fd = input_fd
        self._output_fd = output_fd
        self._decoder = KeyDecoder() if self.interactive else LineDecoder()
        self._found: list[Any] | None = None
        self._put = put
        self._stop = stop or _stop_this_job
        self._gone = False
        self._ended = False
        self._held_back: list[str] | None = None
        self._read: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Output

    @property
    def columns(self) -> int:
        """The width, or 0 where the output has none."""
        return self._size()[0]

    @property
    def rows(self) -> int:
        return self._size()[1]

    def _size(self) -> tuple[int, int]:
        if not os.isatty(self._output_fd):
            return 0, 0
        try:
            size = os.get_terminal_size(self._output_fd)
        except OSError:
            return DEFAULT_COLUMNS, DEFAULT_ROWS
        return size.columns or DEFAULT_COLUMNS, size.lines or DEFAULT_ROWS

    def write(self, text: str) -> None:
        """Writes all of it. A terminal that went away swallows it; reading says that it is gone."""
        if self._held_back is not None:
            self._held_back.append(text)
            return
        if not self.look.unicode:
            text = text.translate(_ASCII).encode("ascii", "replace").decode()
        data = memoryview(text.encode("utf-8", "replace"))
        while data and not self._gone:
            try:
                data = data[self._written(data) :]
            except BlockingIOError:
                select.select((), (self._output_fd,), ())
            except OSError:
                self._gone = True

    def _written(self, data: memoryview) -> int:
        if self._put is None:
            return os.write(self._output_fd, data)
        self._put(bytes(data))
        return len(data)

    def notify(self, text: str) -> None:
        """Rings, and says why where the terminal can."""
        if not self.interactive or self.look.notify == "off":
            return
        said = visible_line(text).replace(";", ",")
        code = {
            "off": "",
            "bell": "",
            "osc9": f"\x1b]9;{said}\x07",
            "osc777": f"\x1b]777;notify;Bridle;{said}\x07",
        }
        message = code[self.look.notify]
        if message and self.look.tmux:
            message = self._through_tmux(message)
        self.write("\x07" + message)

    def copy(self, text: str) -> bool:
        """Asks the terminal to put a text on the clipboard (OSC 52). False where it cannot be asked.

        No terminal says whether it did.
        """
        data = text.encode("utf-8", "replace")
        if not self.interactive or not self.look.codes or len(data) > COPY_BYTES:
            return False
        code = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
        self.write(self._through_tmux(code) if self.look.tmux else code)
        return True

    @staticmethod
    def _through_tmux(code: str) -> str:
        return "\x1bPtmux;" + code.replace("\x1b", "\x1b\x1b") + "\x1b\\"

    # Modes

    @contextmanager
    def raw(self) -> Generator[None]:
        """Keys unechoed, one by one, Ctrl-C as a key. What was typed before stays to be read."""
        self._enter()
        try:
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        """Puts back the settings that were found. Safe to call twice."""
        if self._found is None:
            return
        if self.look.codes:
            self.write(_PASTE_OFF)
        try:
            termios.tcsetattr(self._input_fd, termios.TCSANOW, self._found)
        except termios.error:
            self._gone = True
        self._found = None

    def suspend(self) -> None:
        """Gives the terminal back, stops this job as Ctrl-Z does, and takes it again when it goes on."""
        self.restore()
        self._stop()
        self._enter()

    def resume(self) -> None:
        """Takes the terminal again after somebody else stopped this job; the shell has changed its modes."""
        if self._found is not None:
            self._enter()

    @contextmanager
    def lent(self) -> Generator[None]:
        """Meanwhile the terminal is another program's: its modes are as found, keys are not read, and what is
        written waits until it is ours again.
        """
        loop = asyncio.get_running_loop()
        if self._read is not None:
            loop.remove_reader(self._input_fd)
        self.restore()
        self._held_back = []
        try:
            yield
        finally:
            held, self._held_back = self._held_back, None
            self._enter()
            self.write("".join(held))
            if self._read is not None:
                loop.add_reader(self._input_fd, self._read)

    def _enter(self) -> None:
        if not self.interactive:
            return
        try:
            modes = termios.tcgetattr(self._input_fd)
        except termios.error:  # it went away; reading says so
            self._gone = True
            return
        already = self._found is not None and not modes[3] & termios.ICANON
        if self._found is None:
            self._found = termios.tcgetattr(self._input_fd)
        modes[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.ISTRIP)
        modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        modes[6][termios.VMIN] = 1
        modes[6][termios.VTIME] = 0
        termios.tcsetattr(self._input_fd, termios.TCSANOW, modes)
        if self.look.codes and not already:
            self.write(_PASTE_ON)

    # Input

    @contextmanager
    def listening(self, on_keys: Callable[[list[Key]], None], on_end: Callable[[], None]) -> Generator[None]:
        """Calls `on_keys` whenever keys arrive, on the running loop; `on_end` once, when no more can come."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            keys = self.read_now()
            if keys:
                on_keys(keys)
            if self._ended:
                self._read = None
                loop.remove_reader(self._input_fd)
                on_end()
            elif self.interactive and self._decoder.waiting:
                wait_for_more()

        def wait_for_more() -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_later(ESCAPE_S, settle)

        def settle() -> None:
            if keys := self._decoder.settle():
                on_keys(keys)

        try:
            loop.add_reader(self._input_fd, read)
            self._read = read
        except PermissionError:  # a file: always ready, and nothing to wait for
            loop.call_soon(self._read_file, on_keys, on_end)
        try:
            yield
        finally:
            self._read = None
            loop.remove_reader(self._input_fd)
            if self._timer is not None:
                self._timer.cancel()

    def read_now(self) -> list[Key]:
        """Every key that has arrived and was not read, without waiting."""
        keys: list[Key] = []
        if self._held_back is not None:  # they are for the program that has the terminal
            return keys
        while not self._ended and select.select((self._input_fd,), (), (), 0)[0]:
            keys += self._read_some()
        return keys

    def _read_file(self, on_keys: Callable[[list[Key]], None], on_end: Callable[[], None]) -> None:
        if keys := self.read_now():
            on_keys(keys)
        on_end()

    def _read_some(self) -> list[Key]:
        try:
            data = os.read(self._input_fd, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:  # a terminal that was hung up
            data = b""
        if data:
            return self._decoder.feed(data)
        self._ended = True
        return self._decoder.settle()


def _stop_this_job() -> None:
    os.kill(0, signal.SIGTSTP)
