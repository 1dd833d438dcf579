"""A person at a terminal, one line after the other: the reference rendering of a session.

Owns      keys, the draft, questions and their answers, what is printed; append-only text, no second screen.
Imports   `protocol`, `base` and `clients.interaction`. It sees a `Connection` and nothing behind it.
Start at  `client.talk`, then `key_router.py` (what a key means) and `screen.py` (what an event prints).
Is not    a place for authority: it shows a question whole, takes a deliberate answer and passes it on.
"""
