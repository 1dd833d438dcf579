"""Bridle's folders, and the settings in their files: found, merged, explained.

Owns      the folders of an installation; the table of settings, their tiers, what a workspace may set, profiles.
Imports   `base`, `protocol`.
Start at  `tiers.py`, then `setting_table.py` for the table and `workspace.py` for what foreign files may do.
Is not    a global settings object: each package decodes its own section.
"""
