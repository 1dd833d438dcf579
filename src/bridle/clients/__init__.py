"""The other end: programs that show a session to somebody and send what they want.

Owns      `print` (one task, then exit), `line` (talking at a terminal), `interaction` (what clients share).
Imports   `protocol` and `base` only. A client sees a `Connection` and nothing behind it.
Start at  `print.py`.
Is not    a place for authority: a client asks, the engine decides.
"""
