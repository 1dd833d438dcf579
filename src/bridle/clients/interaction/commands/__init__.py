"""Slash commands that a client handles itself."""
