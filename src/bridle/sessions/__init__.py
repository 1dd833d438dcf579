"""The encrypted log of every session, the ledger of tool calls, finding a session again, and undo.

Owns      `sessions.db` with its key and schema, the chain over events, the writer thread, run locks, the undo store.
Imports   `base`, `protocol`, and of `engine` the `SessionLog` port (which `log.StoredLog` implements), tools and slash.
Start at  `store.py` (what others call), then `log.py` (one open session), `writer.py` (how rows get to disk); for undo
          `undoable.py` (the layer), `undo_keeper.py` (what is kept), `undo_service.py` (how it is put back).
Is not    the meaning of events: conversations, costs and transcripts are folds that live with their owners.

On disk, in one folder (0700, files 0600):
  sessions.db       everything, encrypted page by page; `-wal` and `-shm` beside it
  sessions.key      the data key, wrapped by what locks the credential store
  sessions.lock     held while the database is created or migrated
  locks/LOG         held by the process that appends to that log
  tips/LOG          last id and chain of that log, written after each commit; no content
"""
