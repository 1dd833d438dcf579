"""Programs and callables of the person that run at fixed moments: they may pass, warn, block, ask or patch.

Owns      what a hook is, where hooks are found, how one is run and its answer read, the layer around tools.
Imports   `engine`, `protocol`, `base`, and of `safety` how tool patterns match and how a check fails closed.
Start at  `definitions.py` (the record), then `hook_answers.py` (what counts as an answer), then `session_hooks.py`.
Is not    the trust store (`is_trusted` is given), nor a sandbox: one of the project is started in that of its commands.
"""
