"""The encrypted log of every session, the ledger of tool calls, and finding a session again.

Owns      `sessions.db` with its key and schema, the chain over events, the writer thread, the run locks.
Imports   `base`, `protocol`, and the `SessionLog` port of `engine` (which `log.StoredLog` implements).
Start at  `store.py` (what others call), then `log.py` (one open session), `writer.py` (how rows get to disk).
Is not    the meaning of events: conversations, costs and transcripts are folds that live with their owners.

On disk, in one folder (0700, files 0600):
  sessions.db       everything, encrypted page by page; `-wal` and `-shm` beside it
  sessions.key      the data key
  sessions.lock     held while the database is created or migrated
  locks/LOG         held by the process that appends to that log
  tips/LOG          last id and chain of that log, written after each commit; no content
"""
