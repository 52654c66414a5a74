-- Gates are rows, so that a claim looks at those of the queues and kinds that it names: docs/decisions/0025 says why.
CREATE TABLE gates (
  -- Never given twice: jobs are stored with it.
  number  INTEGER PRIMARY KEY AUTOINCREMENT,
  queue   TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  budgets TEXT    NOT NULL,                       -- a JSON array, empty for none
  -- Jobs of it may be ready. One that is not awake has none: whoever makes a job ready wakes its gate.
  awake   INTEGER NOT NULL CHECK (awake IN (0, 1)),
  UNIQUE (queue, kind, budgets)
) STRICT;

CREATE INDEX gates_awake ON gates (queue, kind) WHERE awake = 1;

-- Those of before had hashes for numbers, which they keep. Two that had the same by chance stay one.
INSERT OR IGNORE INTO gates (number, queue, kind, budgets, awake)
SELECT gate, queue, kind, coalesce(budgets, ''), 1 FROM jobs GROUP BY gate, queue, kind, coalesce(budgets, '');

-- Under other names, since a program of before that still has the file open makes and wakes no gate: it can add nothing
-- more, neither what is ready nor what waits.
ALTER TABLE ready RENAME TO shown;
ALTER TABLE jobs RENAME COLUMN gate TO gate_number;
