"""Secrets at rest and in use: the credential store, signing in, and the helper process.

Owns      the records, the encrypted file and the key that locks it, the system keychain, OAuth, and the process that
          holds a key and sends requests with it (`helper.py`; `forwarder.py` is the engine's side).
Imports   protocol and base. Who asks a person, and which provider has which endpoints, comes in from above.
Start at  `records.py` for the port, `encrypted.py` for the store that is used unless settings say otherwise.
Is not    a place that decides which credential a request gets: that is `app/user/stored_keys.py`.

`cryptography` and `keyring` are imported by the functions that use them, never with a module.
"""
