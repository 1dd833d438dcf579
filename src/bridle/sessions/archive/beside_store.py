"""Paths of the files beside the store: outputs, transcripts, dumps."""

from __future__ import annotations

import os


def outputs_of(state: str, session: str) -> str:
    """The folder of the long outputs of a session."""
    return os.path.join(state, "outputs", session)


def transcripts_of(state: str, session: str) -> str:
    """The folder of what was transcribed of a session."""
    return os.path.join(state, "transcripts", session)


def dumps_of(state: str, session: str) -> tuple[str, str]:
    """The files of what a session sent to providers and got from them, the older one first."""
    folder = os.path.join(state, "debug")
    return os.path.join(folder, f"{session}.1.jsonl"), os.path.join(folder, f"{session}.jsonl")
