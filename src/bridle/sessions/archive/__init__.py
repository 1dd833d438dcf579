"""Stored sessions: branch, import, export, retention, search, backup."""
