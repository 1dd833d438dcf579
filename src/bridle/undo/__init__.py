"""What files were before a call, and taking back what it did to them.

Owns      the layer around changing calls, the look at the workspace, the links to git's objects, the plan of an undo
          and how it is put back.
Imports   `base`, `protocol`, and of `engine` tools, slash commands and the port `UndoStore` with its records.
Start at  `undoable.py` (the layer), then `keeper.py` (what is kept), `undo_service.py` (how it is put back).
Is not    where it is kept: the rows are in the store of the sessions, behind `engine.store_ports.UndoStore`.
"""
