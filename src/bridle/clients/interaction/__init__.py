"""What every client of a person shares: what is put to them, in which words, and what their answers mean.

Owns      the controller (events and intents in, commands and effects out), the view of a session, questions and their
          forms, the composer, slash commands, the picker, rows of text for events, exported pages.
Imports   `protocol` and `base` only, like every client.
Start at  `session/controller.py`, then `effects.py`; `session/session_driver.py` puts it on a connection.
Is not    a terminal and not a widget: it opens nothing and writes nothing; a client performs the effects.
"""
