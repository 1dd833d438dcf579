"""Undo, traces, transcripts, the operational log and retention."""
