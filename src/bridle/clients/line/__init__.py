"""A person at a terminal, one line after the other: the reference rendering of a session.

Owns      the terminal, its keys, what is printed on it; append-only text, no second screen.
Imports   `protocol`, `base` and `clients.interaction`. It sees a `Connection` and nothing behind it.
Start at  `client.py` (performs the effects), then `live_terminal.py` (the rows below) and `screen.py` (events, lines).
Is not    a place for authority or for meaning: what an answer or a command says is for `clients.interaction`.
"""
