-- The schema of the SQLite store. The last guard of every promise is here and
-- not in our code: CHECKs and unique indexes refuse what must never be.
--
-- All times are milliseconds since 1970 by the store's clock. JSON is kept as
-- the text that came.

CREATE TABLE jobs (
  seq              INTEGER PRIMARY KEY,
  id               BLOB    NOT NULL,
  state            INTEGER NOT NULL DEFAULT 0,  -- StateName::code()
  -- Where a queued job stands: 1 ready, 2 delayed, 3 waiting behind its key.
  lane             INTEGER,
  -- A hash of queue, kind and budgets: what holds back one ready job of a gate holds back all.
  gate             INTEGER NOT NULL,
  rank             INTEGER NOT NULL,
  run_at_ms        INTEGER NOT NULL,
  fence            INTEGER NOT NULL DEFAULT 0,
  attempt          INTEGER NOT NULL DEFAULT 0,
  lease_ms         INTEGER,
  expires_ms       INTEGER,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  ended_ms         INTEGER,
  reason           INTEGER,                     -- FailureReason::code()
  crashes          INTEGER NOT NULL DEFAULT 0,
  retries          INTEGER NOT NULL DEFAULT 0,
  steps_count      INTEGER NOT NULL DEFAULT 0,
  created_ms       INTEGER NOT NULL,
  started_ms       INTEGER,
  priority         INTEGER NOT NULL,
  timeout_ms       INTEGER,
  kind             TEXT    NOT NULL,
  queue            TEXT    NOT NULL,
  key              TEXT,
  dedupe_key       TEXT,
  worker           TEXT,
  budgets          TEXT,                        -- a JSON array, NULL for none
  retry            TEXT,
  payload          TEXT    NOT NULL,
  meta             TEXT,
  progress         TEXT,
  result           TEXT,
  history          TEXT,                        -- a JSON array, NULL for none

  CHECK (length(id) = 16),
  CHECK (state BETWEEN 0 AND 4),
  CHECK ((lane IS NOT NULL) = (state = 0) AND (lane IS NULL OR lane BETWEEN 1 AND 3)),
  CHECK (lane IS NOT 3 OR key IS NOT NULL),
  CHECK ((state = 1) = (expires_ms IS NOT NULL) AND (state = 1) = (lease_ms IS NOT NULL)),
  CHECK (state <> 1 OR (worker IS NOT NULL AND started_ms IS NOT NULL AND fence > 0 AND attempt > 0)),
  CHECK (cancel_requested = 0 OR state = 1),
  CHECK ((state >= 2) = (ended_ms IS NOT NULL)),
  CHECK ((state = 3) = (reason IS NOT NULL)),
  CHECK (result IS NULL OR state = 2),
  CHECK (steps_count BETWEEN 0 AND 1000)
) STRICT;

CREATE UNIQUE INDEX jobs_id ON jobs (id);

-- A dedupe key has at most one job that is not final.
CREATE UNIQUE INDEX jobs_dedupe ON jobs (dedupe_key) WHERE dedupe_key IS NOT NULL AND state < 2;

-- Two running jobs of one queue never share a key.
CREATE UNIQUE INDEX jobs_key_running ON jobs (queue, key) WHERE key IS NOT NULL AND state = 1;

-- Of the due jobs of a free key, each gate shows one: the first.
CREATE UNIQUE INDEX jobs_key_ready ON jobs (queue, key, gate) WHERE key IS NOT NULL AND lane = 1;

-- run_at_ms rides along so that the oldest due job of a gate is found without its rows.
CREATE INDEX jobs_ready ON jobs (gate, rank, seq, run_at_ms) WHERE lane = 1;
CREATE INDEX jobs_delayed ON jobs (run_at_ms) WHERE lane = 2;
CREATE INDEX jobs_waiting ON jobs (queue, key, gate, rank, seq, run_at_ms) WHERE lane = 3;
CREATE INDEX jobs_expiry ON jobs (expires_ms) WHERE state = 1;
CREATE INDEX jobs_ended ON jobs (queue, ended_ms) WHERE state >= 2;

-- A stage that has finished. It is never replaced.
CREATE TABLE steps (
  seq       INTEGER NOT NULL REFERENCES jobs (seq),
  ordinal   INTEGER NOT NULL,
  name      TEXT    NOT NULL,
  output    TEXT    NOT NULL,
  attempt   INTEGER NOT NULL,
  stored_ms INTEGER NOT NULL,
  PRIMARY KEY (seq, ordinal),
  UNIQUE (seq, name)
) STRICT;

CREATE TABLE queues (
  name   TEXT PRIMARY KEY,
  policy TEXT    NOT NULL,
  paused INTEGER NOT NULL CHECK (paused IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE budgets (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How many jobs of a queue (sort 0) are queued, running, final; how many
-- running jobs name a budget (sort 1). Written in the commit that moves them.
CREATE TABLE tallies (
  sort     INTEGER NOT NULL CHECK (sort IN (0, 1)),
  name     TEXT    NOT NULL,
  queued   INTEGER NOT NULL CHECK (queued >= 0),
  running  INTEGER NOT NULL CHECK (running >= 0),
  finished INTEGER NOT NULL CHECK (finished >= 0),
  PRIMARY KEY (sort, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
  name    TEXT PRIMARY KEY,
  seen_ms INTEGER NOT NULL,
  body    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- What a claim gave, so that it can be given again.
CREATE TABLE claims (
  request_id BLOB PRIMARY KEY CHECK (length(request_id) = 16),
  at_ms      INTEGER NOT NULL,
  leases     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX claims_at ON claims (at_ms);

CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  at_ms    INTEGER NOT NULL,
  what     INTEGER NOT NULL,                    -- What::code()
  queue    TEXT    NOT NULL,
  jobs     BLOB    NOT NULL CHECK (length(jobs) % 16 = 0)
) STRICT;

-- One row: the counters and the clock.
CREATE TABLE head (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  boot_id    BLOB    NOT NULL CHECK (length(boot_id) = 16),
  offset_ms  INTEGER NOT NULL,
  seen_ms    INTEGER NOT NULL,                  -- the newest moment that was written
  next_seq   INTEGER NOT NULL,
  next_event INTEGER NOT NULL,
  queues_rev INTEGER NOT NULL                   -- rises when a queue's policy changes
) STRICT;
