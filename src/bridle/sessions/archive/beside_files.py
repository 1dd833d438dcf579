"""Copy and delete the files beside the store of a session."""

from __future__ import annotations

import contextlib
import os
import shutil

from bridle.base.ids import SESS, is_id
from bridle.engine.store_ports import ForgetBeside
from bridle.sessions.archive.beside_store import dumps_of, outputs_of, transcripts_of


def copy_outputs(state: str, session: str, made: str) -> None:
    """Gives a branch the long outputs its conversation refers to."""
    kept = outputs_of(state, session)
    if os.path.isdir(kept):
        with contextlib.suppress(OSError):  # a long output that cannot be read again is said then
            shutil.copytree(kept, outputs_of(state, made), symlinks=True)


def forget_beside(state: str) -> ForgetBeside:
    """Removes what lies beside the store of a session: its long outputs, its transcripts and its dumps."""

    def forget(session: str) -> None:
        if is_id(session, SESS):
            for folder in (outputs_of(state, session), transcripts_of(state, session)):
                shutil.rmtree(folder, ignore_errors=True)
            for dump in dumps_of(state, session):
                with contextlib.suppress(OSError):
                    os.unlink(dump)

    return forget
