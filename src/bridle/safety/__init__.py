"""Everything that may say no to a tool call, as layers around it.

Owns      guards on paths, permission rules and modes, the policy a command is started with, and
          redaction of what comes back.
Imports   `engine`, `shell`, `protocol`, `base`; never `tools`: a guard knows subjects, not tools.
Start at  `permission_policy.py` (who decides, in which order), then `guards.py` (what no answer can lift).
Is not    the question itself (the engine asks) nor the words a person reads (clients).

Everything here fails closed: a check that breaks is a call that does not run.
"""
