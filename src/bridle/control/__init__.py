"""The engine as a service: who is attached, in which order commands count, and who hears what.

Owns      the gate, the live sessions, the multiplexer, the tokens, and the transports of an engine that listens.
Imports   `engine`, `protocol`, `base`; it gets everything else from the composition root.
Start at  `authority.py`, then `live.py`, then `multiplex.py`; for what listens, `request_guard.py`, then `http_app.py`.
Is not    policy about tools: it knows who may command and look, never what a tool may do.
"""
