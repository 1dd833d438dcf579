"""Goals: work that goes on from turn to turn until a check of the person's passes.

Owns      the words of `/goal`, the rounds of a goal, and the files of a check.
Imports   `engine`, `protocol`, `base`.
Start at  `session_goal.py`.
Is not    the turn, nor who runs a command: a check is a call like any other, and the engine runs it.
"""
