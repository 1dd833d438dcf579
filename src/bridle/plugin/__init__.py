"""Plugins: features from outside, each in a namespace of its own.

Owns what a plugin is (`contract`), what it fills (`registrar`), and how the listed ones are found and loaded
(`loading`). May import `config`, `engine`, `protocol` and `base`; nothing here is imported where no plugin is. Start
with `contract`. It is no border: a plugin runs in our process with our rights (docs/plugins.md).
"""
