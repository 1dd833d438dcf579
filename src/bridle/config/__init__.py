"""Where Bridle's files are, and (with the settings to come) what they say.

Owns      the folders of an installation.
Imports   `base`.
Start at  `folders.py`.
Is not    a global settings object: each package decodes its own section.
"""
