"""The built-in tools, one file each, with the text the model reads about them.

Owns      what the tools do and how their output is cut to size.
Imports   `engine`, `protocol`, `base`; never `safety`: whether a call may run is decided before it gets here.
Start at  `builtin.py` for the list, `read_file.py` for the simplest one.
Is not    policy, nor the words a person reads about a call (clients).
"""
