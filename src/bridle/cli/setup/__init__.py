"""Verbs for settings, agents, skills, plugins, profiles, checks and the server."""
