"""Write the transcript of a session to a file.

It lies in the state folder, for its owner alone, as text: the log is encrypted, and this is not. Secrets are looked
for once more on the way. It goes when the session's content does (`beside_store`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from bridle.base.fs import files
from bridle.engine.ports import Record
from bridle.engine.store_ports import OpenLog
from bridle.protocol.errors import BridleError
from bridle.protocol.events import Envelope
from bridle.sessions.archive.export import clean, jsonl

Format: TypeAlias = Literal["events", "envelope", "chain"]

FILE_NAMES: Final[dict[Format, str]] = {
    "events": "session.jsonl",
    "envelope": "envelopes.jsonl",
    "chain": "transcript.jsonl",
}
"""A file has one form, whatever settings said when."""
ABOUT: Final = "session.json"
"""What stands beside the chain: the session it is of, and where it ends."""


class TranscriptForm(Protocol):
    """What makes lines of the events of one session, one after the other, and says what stands beside them."""

    def lines(self, envelope: Envelope) -> Iterator[bytes]: ...
    def about(self, envelope: Envelope) -> bytes | None: ...


class KeptTranscript:
    """The transcript file of one open session. A run writes it from the beginning, then adds. `new_form` makes its
    lines; None keeps events as they are stored."""

    def __init__(
        self, log: OpenLog, folder: str, form: Format, new_form: Callable[[], TranscriptForm | None]
    ) -> None:
        self._log = log
        self._folder = folder
        self._format: Format = form
        self._new_form = new_form
        self._begun = False
        self._until = 0
        self._last: Envelope | None = None
        self._form = new_form()

    @property
    def path(self) -> str:
        return os.path.join(self._folder, FILE_NAMES[self._format])

    def prepare(self) -> str | None:
        """Makes the folder; returns why that could not be done."""
        try:
            files.private_folder(self._folder)
        except OSError as problem:
            return problem.strerror or type(problem).__name__
        return None

    def catch_up(self) -> str | None:
        """Write what the file lacks; return the problem, if any. Blocks. After a problem, the file is written from
        the beginning."""
        try:
            if self._begun:
                self._add()
            else:
                self._write_anew()
        except OSError as problem:
            self._begun = False
            return problem.strerror or type(problem).__name__
        except (BridleError, msgspec.MsgspecError) as problem:
            self._begun = False
            return str(problem)
        return None

    def _write_anew(self) -> None:
        files.private_folder(self._folder)
        self._until, self._form = 0, self._new_form()
        temporary = os.path.join(self._folder, f".{os.urandom(12).hex()}.tmp")
        try:
            self._write(temporary, os.O_CREAT | os.O_EXCL)
            os.replace(temporary, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        self._begun = True

    def _add(self) -> None:
        self._write(self.path, os.O_APPEND)

    def _write(self, path: str, flags: int) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
        with open(fd, "wb") as file:
            file.writelines(self._lines(self._log.records(self._until)))
        if self._form is None or self._last is None:
            return
        if (about := self._form.about(self._last)) is not None:
            files.write_atomic(os.path.join(self._folder, ABOUT), about, durable=False)

    def _lines(self, records: Iterable[Record]) -> Iterator[bytes]:
        for record in records:
            if self._form is None:
                yield from jsonl((record,))
            else:
                for envelope in clean((record,)):
                    yield from self._form.lines(envelope)
            self._until = record.envelope.id or self._until
            self._last = record.envelope
