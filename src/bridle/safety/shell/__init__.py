"""Understanding shell commands without running them.

Start at  `understanding.py` (the door), then `reading.py` (text to commands), `judging.py` (commands to parts),
          `programs.py` (how the tables are written), `refusals.py` (what never runs).
Is not    who decides: permissions do, from what is found out here.
"""
