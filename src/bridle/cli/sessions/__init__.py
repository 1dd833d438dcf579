"""Verbs for stored sessions: list, change, cost, undo, memory."""
