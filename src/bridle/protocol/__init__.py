"""The words engine and clients exchange: plain frozen data and nothing else.

Owns      commands, events and their envelope, messages, tool schemas, reasons and their sentences,
          the handshake, token claims, the codec, and `Connection`, the one port a client sees.
Imports   `base` (pure parts) and msgspec.
Start at  `events.py`, then `commands.py`.
Is not    behaviour: nothing here runs a turn, touches a file or knows a transport.
"""
