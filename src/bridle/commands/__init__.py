"""Slash commands that belong to no feature.

Owns      the ones that are a prompt with a name.
Imports   `engine`, `protocol`, `base`.
Start at  `prompts.py`.
Is not    the parser of `/…`: clients do that, the engine never sees it.
"""
