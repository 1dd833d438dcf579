"""The schema as numbered migrations. Never edit a released one."""

from __future__ import annotations

_FIRST = """
create table schema_migrations(
  version integer primary key,
  applied_at integer not null,              -- milliseconds since the epoch
  sha256 text not null                      -- of the step's text
) strict;

create table logs(
  key integer primary key,                  -- short name of the log in other tables
  id text not null unique,
  session text not null,
  created_ms integer not null
) strict;

create table sessions(
  id text primary key,
  log integer not null references logs(key),
  cwd text not null,
  root text not null,                       -- the project, when it is larger than the folder
  profile text not null,
  title text not null default '',
  renamed integer not null default 0,       -- a person chose the title
  labels text not null default '[]',
  pinned integer not null default 0,
  created_ms integer not null,
  updated_ms integer not null,
  model text,
  turns integer not null default 0,
  stop text                                 -- how the last turn ended; null while one is open
) strict, without rowid;

create table aliases(
  alias text primary key,
  session text not null references sessions(id)
) strict, without rowid;

-- Clustered on (log, id): reading on from an id is one range scan that needs no other index.
create table events(
  log integer not null,
  id integer not null,
  kind text not null,
  ts_ms integer not null,
  originator text not null,
  turn integer,
  agent_path text,                          -- JSON list; null for the session's own agent
  invocation text,
  payload blob,                             -- or, when large:
  blob blob,                                -- the key of the payload in blobs
  salt blob,
  digest blob not null,
  chain blob not null,
  primary key (log, id)
) strict, without rowid;

create table blobs(
  sha256 blob primary key,
  bytes blob not null
) strict;

-- The conversation of a log up to an event, so that resuming need not read it all. A cache: may be deleted.
create table folds(
  log integer primary key,
  id integer not null,
  chain blob not null,                      -- of that event; another one there makes the fold worthless
  bytes blob not null
) strict;

-- Written from the events, in the transaction that stores them.
create table turns(
  log integer not null,
  turn integer not null,
  first_id integer not null,
  started_ms integer not null,
  ended_ms integer,
  stop text,
  primary key (log, turn)
) strict, without rowid;

create table tool_call_intents(
  call_id text primary key,
  log_id text not null,
  tool_name text not null,
  args_hash text not null,
  is_mutating integer not null,
  started_at integer not null
) strict, without rowid;

create table tool_call_outcomes(
  call_id text primary key,
  outcome text not null,
  completed_at integer not null,
  result_ref text not null                  -- LOG:EVENT of the result
) strict, without rowid;
"""

_UNDO = """
-- What files held, for undo. Apart from blobs: these go when nobody needs them, those with their events.
create table undo_contents(
  sha256 blob primary key,
  bytes blob not null
) strict;

create table undo_calls(
  log integer not null,
  number integer not null,                  -- in the order calls began
  call_id text not null,
  turn integer,                             -- null for a command a person typed
  tool text not null,
  does text not null,                       -- the call in a few words
  started_ms integer not null,
  open integer not null,                    -- it runs, or Bridle stopped while it ran
  undone integer not null,                  -- written from UndoApplied
  kept blob not null,                       -- msgpack of undo_states.Kept
  primary key (log, number)
) strict;

create table undo_actions(
  log integer not null,
  number integer not null,
  calls text not null,                      -- JSON list of call ids
  turn integer,
  redo_of integer,                          -- the action this one takes back
  done integer not null,                    -- written from UndoApplied; 0 when Bridle stopped in the middle
  reversed integer not null,                -- a redo took it back
  started_ms integer not null,
  items blob not null,                      -- msgpack of undo_states.Item
  primary key (log, number)
) strict;
"""

_LIFE = """
-- What a session cost, where it comes from, and what became of its content.
alter table sessions add column usd real not null default 0;           -- as far as prices were known
alter table sessions add column branch_of text;                        -- the session it was branched from
alter table sessions add column imported_ms integer;                   -- when it came in from a file
alter table sessions add column expired_ms integer;                    -- when its content was deleted
alter table sessions add column headless integer not null default 0;   -- begun where nobody could be asked

alter table logs add column origin blob;                               -- before the first link; null: made from the id
alter table logs add column searched_to integer not null default 0;    -- events up to here were looked at for said
alter table logs add column purged integer not null default 0;         -- nothing of its content is left

update sessions set usd = (
  select coalesce(sum(json_extract(cast(payload as text), '$.usd')), 0) from events
  where events.log = sessions.log and kind = 'CostIncremented' and payload is not null
);

create index events_by_blob on events(blob) where blob is not null;
create index aliases_by_session on aliases(session);

-- What people and models said, to be searched. Made from the events when somebody searches; gone when they expire.
create table said(
  key integer primary key,
  log integer not null,
  event integer not null,
  turn integer,
  ts_ms integer not null,
  who text not null,                        -- you, or model
  text text not null
) strict;

create index said_by_log on said(log);

create virtual table said_words using fts5(
  text, content = 'said', content_rowid = 'key', tokenize = 'unicode61 remove_diacritics 2'
);
insert into said_words(said_words, rank) values('secure-delete', 1);

create trigger said_added after insert on said begin
  insert into said_words(rowid, text) values(new.key, new.text);
end;

create trigger said_removed after delete on said begin
  insert into said_words(said_words, rowid, text) values('delete', old.key, old.text);
end;
"""

_SALVAGE = """
-- What a repair could read behind a damage, as a session to be read only; the session it is the rest of.
alter table sessions add column rest_of text;
"""

_UNDO_AWAITED = """
-- Contents stored before the row that names them: nobody drops these in between. Forgotten after a day.
create table undo_awaited(
  log integer not null,
  sha256 blob not null,
  since_ms integer not null,
  primary key (log, sha256)
) strict, without rowid;
"""

_OUTPUTS = """
-- What long outputs of tools, which lie beside the database, are encrypted with; null until there is one.
alter table logs add column outputs_key blob;
"""

_LEASE = """
-- Who may append: one more with everyone who opens the log. A row of an earlier one is not written.
alter table logs add column epoch integer not null default 0;
alter table logs add column holder text not null default '';
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _UNDO, _LIFE, _SALVAGE, _UNDO_AWAITED, _OUTPUTS, _LEASE)
