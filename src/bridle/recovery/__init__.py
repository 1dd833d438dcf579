"""What a crash left open: calls that may or may not have happened, and a person's word on each.

Owns      looking at what is there now, asking, and recording the judgement.
Imports   `engine`, `protocol`, `shell`, `base`. Undo, patches and the repository come in as arguments.
Start at  `court.py`. Loaded only when a session goes on that has such calls.
Is not    finding them or closing the rest of an interrupted turn (`engine.resume`), nor wording (clients).
"""
