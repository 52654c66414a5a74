-- A job that ends passes its key on to the next in line: the row of the key stays as it is, and the next
-- is ready as its heir. docs/decisions/0017 says why.

-- It stands for a key that is taken: whoever claims it need not take the key.
ALTER TABLE ready ADD COLUMN heir INTEGER NOT NULL DEFAULT 0 CHECK (heir IN (0, 1));

-- A key that has a row is taken: a job of it is running, or is ready as its heir. Seq, gate and rank are
-- those of the job that took it; the one that has it now is that one or, unless it was warned, one behind it
-- in the line of that gate.
-- Under a name of its own, since a program of before that still has the file open knows nothing of heirs.
ALTER TABLE holders RENAME TO keys_taken;
-- The line of a job that runs may be without its row, so it must not be looked for there.
UPDATE keys_taken SET warned = 1;
DROP INDEX holders_warned;
CREATE INDEX keys_taken_warned ON keys_taken (slot) WHERE warned = 1;
