"""The engine as a service: who is attached, in which order commands count, and who hears what.

Owns      the multiplexer and the transports. In process only, for now.
Imports   `engine`, `protocol`, `base`; it gets everything else from the composition root.
Start at  `multiplex.py`.
Is not    policy: it knows identities and order, never what a tool may do.
"""
