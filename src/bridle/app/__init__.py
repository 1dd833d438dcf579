"""The composition root: from settings to a running engine, in reading order.

Owns      nothing but the composition: the only package that knows everyone.
Imports   everything below it.
Start at  `composition.py`: a session of its features, which `session_features.py` lists.
Is not    a home for behaviour: what is decided here is who gets what.
"""
