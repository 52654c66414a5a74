-- How many queued jobs of a queue are due from which millisecond on. Written in
-- the commit that moves them, like the tallies: jobs that were accepted together
-- share a row, so this costs less than an index over them, and the oldest due
-- job of a queue is found in its first row, however many wait.
CREATE TABLE due (
  queue     TEXT    NOT NULL,
  run_at_ms INTEGER NOT NULL,
  jobs      INTEGER NOT NULL CHECK (jobs > 0),
  PRIMARY KEY (queue, run_at_ms)
) STRICT, WITHOUT ROWID;

INSERT INTO due (queue, run_at_ms, jobs)
SELECT queue, run_at_ms, count(*) FROM jobs WHERE state = 0 GROUP BY queue, run_at_ms;

-- Nobody looks for moments in this one any more.
DROP INDEX jobs_ready;
CREATE INDEX jobs_ready ON jobs (gate, rank, seq) WHERE lane = 1;
