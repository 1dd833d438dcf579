"""Secrets: their formats, and redaction."""
