"""Bridle's folders, and the settings in their files: found, merged, explained.

Owns      the folders of an installation; the check of settings files, their tiers, the workspace rule, profiles.
Imports   `base`, `protocol`, `engine.setting_fields`.
Start at  `settings_loading.py` and `tiers.py`, then `setting_table.py` and `workspace.py`.
Is not    a list of settings: each package declares its section, and `app.user.setting_sections` lists them.
"""
