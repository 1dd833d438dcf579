"""Transcripts of sessions as files."""

from __future__ import annotations

from bridle.clients.dotted_events import ChainForm, EventsForm
from bridle.engine.store_ports import OpenLog
from bridle.sessions.archive.transcript_file import Format, KeptTranscript, TranscriptForm


def session_transcript(log: OpenLog, folder: str, form: Format) -> KeptTranscript:
    return KeptTranscript(log, folder, form, lambda: _new_form(form))


def _new_form(form: Format) -> TranscriptForm | None:
    match form:
        case "events":
            return EventsForm()
        case "chain":
            return ChainForm()
        case "envelope":
            return None
