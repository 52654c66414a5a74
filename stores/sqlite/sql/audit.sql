-- What must hold between the rows. Each row of the answer is a breach.
SELECT 'tally of queue ' || queue AS breach FROM (
  SELECT queue, sum(state = 0) AS queued, sum(state = 1) AS running, sum(state >= 2) AS finished
  FROM jobs GROUP BY queue
  UNION ALL
  SELECT name, -queued, -running, -finished FROM tallies WHERE sort = 0
) GROUP BY queue HAVING sum(queued) <> 0 OR sum(running) <> 0 OR sum(finished) <> 0
UNION ALL
SELECT 'tally of budget ' || name FROM (
  SELECT budget.value AS name, 1 AS running FROM jobs, json_each(jobs.budgets) AS budget WHERE state = 1
  UNION ALL
  SELECT name, -running FROM tallies WHERE sort = 1
) GROUP BY name HAVING sum(running) <> 0
UNION ALL
SELECT 'job ' || ready.seq || ' is ready and its key is running' FROM jobs AS ready
WHERE ready.lane = 1 AND EXISTS (
  SELECT 1 FROM jobs AS other WHERE other.state = 1 AND other.queue = ready.queue AND other.key = ready.key
)
UNION ALL
SELECT 'job ' || waiting.seq || ' waits for nobody' FROM jobs AS waiting
WHERE waiting.lane = 3 AND NOT EXISTS (
  SELECT 1 FROM jobs AS other WHERE other.queue = waiting.queue AND other.key = waiting.key
    AND (other.state = 1 OR (other.lane = 1 AND other.gate = waiting.gate
      AND (other.rank, other.seq) < (waiting.rank, waiting.seq)))
)
UNION ALL
SELECT 'job ' || jobs.seq || ' miscounts its steps' FROM jobs
WHERE steps_count <> (SELECT count(*) FROM steps WHERE steps.seq = jobs.seq)
UNION ALL
SELECT 'step of a job that is gone: ' || seq FROM steps WHERE seq NOT IN (SELECT seq FROM jobs)
UNION ALL
SELECT 'job ' || seq || ' lies beyond the counter' FROM jobs WHERE seq >= (SELECT next_seq FROM head)
UNION ALL
SELECT 'moments at which jobs of queue ' || queue || ' are due' FROM (
  SELECT queue, run_at_ms, 1 AS jobs FROM jobs WHERE state = 0
  UNION ALL
  SELECT queue, run_at_ms, -jobs FROM due
) GROUP BY queue, run_at_ms HAVING sum(jobs) <> 0
