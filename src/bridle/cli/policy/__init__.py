"""Verbs for permissions, trust, hooks and the sandbox."""
