"""The schema as numbered steps, forward only. A released step is never edited: append another one."""

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

MIGRATIONS: tuple[str, ...] = (_FIRST,)
