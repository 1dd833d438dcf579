"""The engine as a service: who is attached, in which order commands count, and who hears what.

Owns      the gate, the live sessions, the multiplexer and the transports. In process only, for now.
Imports   `engine`, `protocol`, `base`; it gets everything else from the composition root.
Start at  `authority.py`, then `live.py`, then `multiplex.py`.
Is not    policy about tools: it knows who may command and look, never what a tool may do.
"""
