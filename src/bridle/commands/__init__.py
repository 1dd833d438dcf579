"""Slash commands that belong to no feature.

Owns      the ones that are a prompt with a name, and git: `/diff`, which looks, and those that run as the person.
Imports   `engine`, `protocol`, `base`.
Start at  `described_commands.py`, `git_as_person.py`.
Is not    the parser of `/…`: clients do that, the engine never sees it.
"""
