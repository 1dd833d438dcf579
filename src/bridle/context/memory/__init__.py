"""What should last beyond a session: notes of the person and the model, one Markdown file each.

Owns      the files and their index, which of them go with a turn, the `memory` tool and `/memory`.
Imports   `engine`, `protocol`, `base`.
Start at  `memory_files.py`, then `memory_choice.py`.
Is not    a source of instructions: what is read back is data, wrapped as such.
"""
