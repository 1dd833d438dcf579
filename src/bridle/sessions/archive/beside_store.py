"""Paths of the files beside the store: outputs, transcripts, dumps."""

from __future__ import annotations

import contextlib
import os
import shutil

from bridle.base.ids import SESS, is_id
from bridle.engine.store_ports import ForgetBeside


def outputs_of(state: str, session: str) -> str:
    return os.path.join(state, "outputs", session)


def transcripts_of(state: str, session: str) -> str:
    return os.path.join(state, "transcripts", session)


def dumps_of(state: str, session: str) -> tuple[str, str]:
    """The files of what a session sent to providers and got from them, the older one first."""
    folder = os.path.join(state, "debug")
    return os.path.join(folder, f"{session}.1.jsonl"), os.path.join(folder, f"{session}.jsonl")


def copy_outputs(state: str, session: str, made: str) -> None:
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
