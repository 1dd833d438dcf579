"""The composition root: from settings to a running engine, in reading order.

Owns      nothing but the composition: the only package that knows everyone.
Imports   everything below it.
Start at  `composition.py`: two tuples say what stands around the model and around a tool.
Is not    a home for behaviour: what is decided here is who gets what.
"""
