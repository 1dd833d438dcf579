"""Plugins: features from outside, each in a namespace of its own.

Owns what a plugin is and what it fills (`registrar`), how the listed ones are found and loaded (`loading`), and how
bundles are brought here (`bundle_install`). May import `config`, `engine`, `protocol` and `base`; nothing here is
imported where no plugin is. Start with `registrar`. It is no border: a plugin runs in our process with our rights
(docs/plugins.md).
"""
