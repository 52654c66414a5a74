-- What a job is stands in `jobs`, is written when the job comes, and is not
-- touched by an ordinary claim, nor by an ordinary completion. What changes with
-- every attempt stands in narrow tables beside it: its place in line, its lease,
-- what is behind it. docs/decisions/0014 says why.

CREATE TABLE jobs_new (
  seq         INTEGER PRIMARY KEY,
  id          BLOB    NOT NULL,
  -- A hash of queue, kind and budgets: what holds back one ready job of a gate holds back all.
  gate        INTEGER NOT NULL,
  rank        INTEGER NOT NULL,
  run_at_ms   INTEGER NOT NULL,
  created_ms  INTEGER NOT NULL,
  priority    INTEGER NOT NULL,
  timeout_ms  INTEGER,
  steps_count INTEGER NOT NULL DEFAULT 0,
  crashes     INTEGER NOT NULL DEFAULT 0,
  retries     INTEGER NOT NULL DEFAULT 0,
  slot        INTEGER,                          -- a hash of queue and key
  kind        TEXT    NOT NULL,
  queue       TEXT    NOT NULL,
  key         TEXT,
  dedupe_key  TEXT,
  budgets     TEXT,                             -- a JSON array, NULL for none
  retry       TEXT,
  meta        TEXT,
  progress    TEXT,
  history     TEXT,                             -- a JSON array, NULL for none
  payload     TEXT    NOT NULL,                 -- the last: whatever is read before it lies on one page

  CHECK (length(id) = 16),
  CHECK ((slot IS NULL) = (key IS NULL)),
  CHECK (steps_count BETWEEN 0 AND 1000)
) STRICT;

-- The right to run an attempt. A job that has a row here is running; it has one lease at most.
-- Those that run out are looked for among all of them: they are no more than what runs.
CREATE TABLE leases (
  seq              INTEGER PRIMARY KEY,
  fence            INTEGER NOT NULL CHECK (fence > 0),
  attempt          INTEGER NOT NULL CHECK (attempt > 0),
  started_ms       INTEGER NOT NULL,
  lease_ms         INTEGER NOT NULL,
  expires_ms       INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  worker           TEXT    NOT NULL
) STRICT;

-- What a job has behind it that is not running: its newest attempt, and how it ended. One that is
-- queued and was never claimed has no row.
CREATE TABLE past (
  seq        INTEGER PRIMARY KEY,
  state      INTEGER NOT NULL,                  -- StateName::code()
  fence      INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  started_ms INTEGER,
  ended_ms   INTEGER,
  reason     INTEGER,                           -- FailureReason::code()
  worker     TEXT,
  result     TEXT,

  CHECK (state IN (0, 2, 3, 4)),
  CHECK ((state >= 2) = (ended_ms IS NOT NULL)),
  CHECK ((state = 3) = (reason IS NOT NULL)),
  CHECK (result IS NULL OR state = 2)
) STRICT;

-- The jobs that may be claimed, in order, if their gate is open.
CREATE TABLE ready (
  gate  INTEGER NOT NULL,
  rank  INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  again INTEGER NOT NULL CHECK (again IN (0, 1)),  -- it has a past
  PRIMARY KEY (gate, rank, seq)
) STRICT, WITHOUT ROWID;

-- The due jobs with a key. While the key is free, the first of each gate is also in `ready`. The row of
-- a job that has left the line (it runs, or has ended) may stay for a while: the lines of many keys lie on
-- as many pages, and a job that runs should not have to write to its own. Such rows stand before all others.
CREATE TABLE line (
  slot  INTEGER NOT NULL,
  gate  INTEGER NOT NULL,
  rank  INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  again INTEGER NOT NULL CHECK (again IN (0, 1)),
  PRIMARY KEY (slot, gate, rank, seq)
) STRICT, WITHOUT ROWID;

-- Two running jobs of one queue never share a key.
CREATE TABLE holders (
  slot   INTEGER PRIMARY KEY,
  seq    INTEGER NOT NULL,
  gate   INTEGER NOT NULL,
  rank   INTEGER NOT NULL,
  -- Somebody may wait before it in line, or at another gate: it is not enough to look behind it when it ends.
  warned INTEGER NOT NULL CHECK (warned IN (0, 1))
) STRICT;

CREATE INDEX holders_warned ON holders (slot) WHERE warned = 1;

-- The jobs whose time has not come.
CREATE TABLE delayed (
  run_at_ms INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  PRIMARY KEY (run_at_ms, seq)
) STRICT, WITHOUT ROWID;

-- A dedupe key has at most one job that is not final.
CREATE TABLE dedupes (
  dedupe_key TEXT PRIMARY KEY,
  seq        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which jobs have ended, by age: those of a queue that ended together share a row. One that was
-- retried or deleted since stays listed until its row's turn comes.
CREATE TABLE ended (
  queue    TEXT    NOT NULL,
  ended_ms INTEGER NOT NULL,
  position INTEGER NOT NULL,                    -- tells apart those of one moment
  jobs     TEXT    NOT NULL,                    -- a JSON array of their seqs
  PRIMARY KEY (queue, ended_ms, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps_new (
  seq       INTEGER NOT NULL REFERENCES jobs_new (seq),
  ordinal   INTEGER NOT NULL,
  name      TEXT    NOT NULL,
  output    TEXT    NOT NULL,
  attempt   INTEGER NOT NULL,
  stored_ms INTEGER NOT NULL,
  PRIMARY KEY (seq, ordinal),
  UNIQUE (seq, name)
) STRICT;

INSERT INTO jobs_new
SELECT seq, id, gate, rank, run_at_ms, created_ms, priority, timeout_ms, steps_count, crashes, retries,
  CASE WHEN key IS NOT NULL THEN windlass_slot(queue, key) END,
  kind, queue, key, dedupe_key, budgets, retry, meta, progress, history, payload
FROM jobs ORDER BY seq;

INSERT INTO leases
SELECT seq, fence, attempt, started_ms, lease_ms, expires_ms, cancel_requested, worker
FROM jobs WHERE state = 1 ORDER BY seq;

INSERT INTO past
SELECT seq, state, fence, attempt, started_ms, ended_ms, reason, worker, result
FROM jobs WHERE state >= 2 OR (state = 0 AND fence > 0) ORDER BY seq;

INSERT INTO ready
SELECT gate, rank, seq, fence > 0 FROM jobs WHERE lane = 1 ORDER BY gate, rank, seq;

INSERT INTO line
SELECT slot, new.gate, new.rank, seq, fence > 0 FROM jobs JOIN jobs_new AS new USING (seq)
WHERE lane IN (1, 3) AND slot IS NOT NULL ORDER BY slot, new.gate, new.rank, seq;

INSERT INTO holders
SELECT slot, seq, new.gate, new.rank, 1 FROM jobs JOIN jobs_new AS new USING (seq)
WHERE state = 1 AND slot IS NOT NULL;

INSERT INTO delayed
SELECT run_at_ms, seq FROM jobs WHERE lane = 2 ORDER BY run_at_ms, seq;

INSERT INTO dedupes
SELECT dedupe_key, seq FROM jobs WHERE dedupe_key IS NOT NULL AND state < 2;

INSERT INTO ended
SELECT queue, ended_ms, -1 - seq / 1000, json_group_array(seq) FROM jobs WHERE state >= 2
GROUP BY queue, ended_ms, seq / 1000;

INSERT INTO steps_new
SELECT seq, ordinal, name, output, attempt, stored_ms FROM steps ORDER BY seq, ordinal;

DROP TABLE steps;
DROP TABLE jobs;
ALTER TABLE jobs_new RENAME TO jobs;
ALTER TABLE steps_new RENAME TO steps;
CREATE UNIQUE INDEX jobs_id ON jobs (id);
