-- A store has an epoch: windlass_core::epoch. docs/decisions/0027 says how a file notices that a new one begins.
CREATE TABLE epoch (
  one          INTEGER PRIMARY KEY CHECK (one = 1),
  number       INTEGER NOT NULL CHECK (number > 0),
  instance     BLOB    NOT NULL CHECK (length(instance) = 16),
  floor        INTEGER NOT NULL CHECK (floor >= 0),
  began_ms     INTEGER NOT NULL,
  first_seq    INTEGER NOT NULL,                  -- jobs with a lower number were accepted before it
  lossy        INTEGER NOT NULL CHECK (lossy IN (0, 1)),
  pause_max_ms INTEGER NOT NULL,                  -- as it was set when the epoch began
  -- Which file this is, so that a copy finds out that it is one: windlass_core::incarnation.
  file_dev     INTEGER NOT NULL,
  file_ino     INTEGER NOT NULL,
  file_born_ns INTEGER,
  file_boot    BLOB    NOT NULL CHECK (length(file_boot) = 16)
) STRICT;

-- The longest leases that were claimed from queues which say shorter ones.
CREATE TABLE longest (
  queue    TEXT    PRIMARY KEY,
  lease_ms INTEGER NOT NULL,
  at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Rises with each commit.
ALTER TABLE head ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;
-- Rises when the row of the epoch changes: what was remembered of it is then stale.
ALTER TABLE head ADD COLUMN epoch_rev INTEGER NOT NULL DEFAULT 0;

-- Jobs that are accepted while an epoch holds back others, and that nobody can hold, stand at gates of their own.
CREATE TABLE gates_new (
  -- Never given twice: jobs are stored with it.
  number  INTEGER PRIMARY KEY AUTOINCREMENT,
  queue   TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  budgets TEXT    NOT NULL,                       -- a JSON array, empty for none
  epoch   INTEGER NOT NULL DEFAULT 0,             -- the number of the epoch that does not hold back its jobs, or 0
  -- Jobs of it may be ready. One that is not awake has none: whoever makes a job ready wakes its gate.
  awake   INTEGER NOT NULL CHECK (awake IN (0, 1)),
  UNIQUE (queue, kind, budgets, epoch)
) STRICT;
INSERT INTO gates_new (number, queue, kind, budgets, awake) SELECT number, queue, kind, budgets, awake FROM gates;
INSERT INTO sqlite_sequence (name, seq) SELECT 'gates_new', 0 WHERE NOT EXISTS (SELECT 1 FROM gates);
UPDATE sqlite_sequence SET seq = (SELECT max(old.seq, sqlite_sequence.seq) FROM sqlite_sequence AS old WHERE old.name = 'gates')
WHERE name = 'gates_new' AND EXISTS (SELECT 1 FROM sqlite_sequence AS old WHERE old.name = 'gates');
DROP TABLE gates;
ALTER TABLE gates_new RENAME TO gates;
CREATE INDEX gates_awake ON gates (queue, kind) WHERE awake = 1;

-- Under another name, since a program of before that still has the file open knows no floor: it can claim nothing more.
-- What it holds, it can finish.
DROP INDEX claims_at;
ALTER TABLE claims RENAME TO claims_made;
CREATE INDEX claims_made_at ON claims_made (at_ms);

-- When a schedule is due next, so that no other is looked at; of those that are there, the first look finds out.
ALTER TABLE schedules ADD COLUMN next_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX schedules_next ON schedules (next_ms);
