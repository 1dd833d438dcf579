"""Understanding shell commands without running them.

Start at  `understanding.py` (the door), then `script_reader.py` (text to commands), `command_parts.py` (commands to
          parts), `programs.py` (how the tables are written), `refusals.py` (what never runs).
Is not    who decides: permissions do, from what is found out here.
"""
