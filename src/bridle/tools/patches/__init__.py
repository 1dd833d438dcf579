"""Edits: patches, hunks, previews and atomic writes."""
