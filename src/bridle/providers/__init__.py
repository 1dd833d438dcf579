"""Models, and how Bridle talks to them.

Owns      the wires and their endpoints, the retry layer, and the scripted model with its scripts.
Imports   `engine` (the ports it implements), `protocol`, `base`.
Start at  `scripted.py`, the smallest provider; `wires.py` says who speaks which protocol, `remote.py` sends and reads.
Is not    the turn: a provider sends one request and yields one answer, and knows no session and no tool.
"""

DEMO = "demo"
"""The provider whose models are scripts: it needs no key and no network."""
