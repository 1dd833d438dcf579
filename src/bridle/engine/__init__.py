"""One session, one turn at a time: the loop, the layers around it, and the ports it needs.

Owns      the turn, dispatch of tool calls, the inbox, the bus, cancellation, the fold from events to
          conversation, and every port (`Provider`, `SessionLog`, `Spawn` …) with its contract.
Imports   `protocol` and the pure parts of `base`.
Start at  `turn.py`: it fits on a screen. Then `tools.py` (what a tool is) and `ports.py`.
Is not    policy (layers), I/O (ports), text for people (clients) or for the model (tools).
"""
