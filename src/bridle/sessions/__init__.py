"""The encrypted log of every session, the ledger of tool calls, and finding a session again.

Owns      `sessions.db` with its key and schema, the chain over events, the writer thread, run locks, undo's tables.
Imports   `base`, `protocol`, and of `engine` the ports it implements (in `log` and `undo_store`) and the fold.
Start at  `store.py` (what others call), then `log.py` (one open session), `writer.py` (how rows get to disk).
Is not    the meaning of events: conversations, costs and transcripts are folds that live with their owners.

On disk, in one folder (0700, files 0600):
  sessions.db       everything, encrypted page by page; `-wal` and `-shm` beside it
  sessions.key      the data key, wrapped by what locks the credential store
  sessions.lock     held while the database is created or migrated
  locks/LOG         held by the process that appends to that log
  tips/LOG          last id and chain of that log, written after each commit; no content
"""
