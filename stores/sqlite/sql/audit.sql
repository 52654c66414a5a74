-- What must hold between the rows. Each row of the answer is a breach.
WITH course AS MATERIALIZED (
  SELECT jobs.seq, queue, gate_number AS gate, rank, run_at_ms, slot, dedupe_key, past.seq IS NOT NULL AS again,
    CASE WHEN leases.seq IS NULL THEN coalesce(past.state, 0) ELSE 1 END AS state
  FROM jobs LEFT JOIN leases ON leases.seq = jobs.seq LEFT JOIN past ON past.seq = jobs.seq
),
-- Without the rows of jobs that have left.
waiting AS MATERIALIZED (
  SELECT line.slot, line.gate, line.rank, line.seq FROM line JOIN course ON course.seq = line.seq WHERE state = 0
),
-- Who has a key: the running job, or the one that is ready as its heir.
having_key AS MATERIALIZED (
  SELECT slot, gate, rank, seq, 1 AS running FROM course WHERE state = 1 AND slot IS NOT NULL
  UNION ALL
  SELECT jobs.slot, shown.gate, shown.rank, shown.seq, 0 FROM shown JOIN jobs ON jobs.seq = shown.seq WHERE heir = 1
)
SELECT 'tally of queue ' || queue AS breach FROM (
  SELECT queue, sum(state = 0) AS queued, sum(state = 1) AS running, sum(state >= 2) AS finished
  FROM course GROUP BY queue
  UNION ALL
  SELECT name, -queued, -running, -finished FROM tallies WHERE sort = 0
) GROUP BY queue HAVING sum(queued) <> 0 OR sum(running) <> 0 OR sum(finished) <> 0
UNION ALL
SELECT 'tally of budget ' || name FROM (
  SELECT budget.value AS name, 1 AS running
  FROM leases JOIN jobs ON jobs.seq = leases.seq, json_each(jobs.budgets) AS budget
  UNION ALL
  SELECT name, -running FROM tallies WHERE sort = 1
) GROUP BY name HAVING sum(running) <> 0
UNION ALL
SELECT 'a place, a lease or a past of a job that is gone: ' || seq FROM (
  SELECT seq FROM leases UNION ALL SELECT seq FROM past UNION ALL SELECT seq FROM shown UNION ALL SELECT seq FROM line
  UNION ALL SELECT seq FROM delayed UNION ALL SELECT seq FROM dedupes
) WHERE seq NOT IN (SELECT seq FROM jobs)
UNION ALL
SELECT 'job ' || seq || ' is running and has a past' FROM leases WHERE seq IN (SELECT seq FROM past)
UNION ALL
SELECT 'job ' || course.seq || ' stands in ' || count(place.seq) || ' places' FROM course LEFT JOIN (
  SELECT seq FROM delayed UNION ALL SELECT seq FROM waiting
  UNION ALL SELECT shown.seq FROM shown JOIN jobs ON jobs.seq = shown.seq WHERE slot IS NULL
) AS place ON place.seq = course.seq
GROUP BY course.seq HAVING count(place.seq) <> (state = 0)
UNION ALL
SELECT 'job ' || course.seq || ' stands at a wrong place' FROM course LEFT JOIN shown ON shown.seq = course.seq
  LEFT JOIN line ON line.seq = course.seq LEFT JOIN delayed ON delayed.seq = course.seq
WHERE (shown.gate, shown.rank, shown.again) <> (course.gate, course.rank, course.again)
  OR (line.slot, line.gate, line.rank) <> (course.slot, course.gate, course.rank)
  OR (state = 0 AND line.again <> course.again)
  OR delayed.run_at_ms <> course.run_at_ms
UNION ALL
SELECT 'job ' || seq || ' is ready and does not stand first in line of a key that is free or its own' FROM shown
WHERE seq IN (SELECT seq FROM jobs WHERE slot IS NOT NULL) AND NOT EXISTS (
  SELECT 1 FROM waiting WHERE waiting.seq = shown.seq AND (slot IN (SELECT slot FROM keys_taken)) = heir AND NOT EXISTS (
    SELECT 1 FROM waiting AS other WHERE other.slot = waiting.slot AND other.gate = waiting.gate
      AND (other.rank, other.seq) < (waiting.rank, waiting.seq)
  )
)
UNION ALL
SELECT 'job ' || seq || ' waits for nobody' FROM waiting
WHERE slot NOT IN (SELECT slot FROM keys_taken) AND seq NOT IN (SELECT seq FROM shown) AND NOT EXISTS (
  SELECT 1 FROM waiting AS other WHERE other.slot = waiting.slot AND other.gate = waiting.gate
    AND (other.rank, other.seq) < (waiting.rank, waiting.seq)
)
UNION ALL
SELECT 'job ' || waiting.seq || ' waits before ' || having_key.seq || ', which has its key, unnoticed' FROM waiting
JOIN keys_taken ON keys_taken.slot = waiting.slot JOIN having_key ON having_key.slot = waiting.slot
WHERE warned = 0 AND (waiting.gate <> having_key.gate OR (waiting.rank, waiting.seq) < (having_key.rank, having_key.seq))
UNION ALL
SELECT 'job ' || line.seq || ' has left its line and stands behind one that waits' FROM line
WHERE line.seq NOT IN (SELECT seq FROM waiting) AND EXISTS (
  SELECT 1 FROM waiting WHERE waiting.slot = line.slot AND waiting.gate = line.gate
    AND (waiting.rank, waiting.seq) < (line.rank, line.seq)
)
UNION ALL
SELECT 'job ' || course.seq || ' is ready, and is not queued' FROM course JOIN shown ON shown.seq = course.seq
WHERE state <> 0
UNION ALL
SELECT 'a key that is taken, and ' || sum(has) || ' jobs that have it, such as ' || max(seq) FROM (
  SELECT slot, seq, 1 AS has, 0 AS taken FROM having_key
  UNION ALL
  SELECT slot, seq, 0, 1 FROM keys_taken
) GROUP BY slot HAVING sum(has) <> 1 OR sum(taken) <> 1
UNION ALL
SELECT 'job ' || having_key.seq || ' is not where its key says' FROM having_key JOIN keys_taken USING (slot)
WHERE having_key.gate <> keys_taken.gate OR (having_key.rank, having_key.seq) < (keys_taken.rank, keys_taken.seq)
  OR (warned = 1 AND (having_key.seq <> keys_taken.seq OR running = 0))
  OR (warned = 0 AND having_key.seq NOT IN (SELECT seq FROM line WHERE line.slot = having_key.slot))
UNION ALL
SELECT 'jobs of one key in several lines, such as ' || min(seq) FROM jobs WHERE key IS NOT NULL
GROUP BY queue, key HAVING min(slot) <> max(slot)
UNION ALL
SELECT 'job ' || seq || ' and the holder of its dedupe key' FROM (
  SELECT dedupe_key, seq, 1 AS held FROM course WHERE state < 2 AND dedupe_key IS NOT NULL
  UNION ALL
  SELECT dedupe_key, seq, -1 FROM dedupes
) GROUP BY dedupe_key, seq HAVING sum(held) <> 0
UNION ALL
SELECT 'job ' || seq || ' has ended and nobody will prune it' FROM (
  SELECT jobs.queue, ended_ms, jobs.seq FROM past JOIN jobs ON jobs.seq = past.seq WHERE state >= 2
  EXCEPT
  SELECT queue, ended_ms, job.value FROM ended, json_each(ended.jobs) AS job
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
  SELECT queue, run_at_ms, 1 AS jobs FROM course WHERE state = 0
  UNION ALL
  SELECT queue, run_at_ms, -jobs FROM due
) GROUP BY queue, run_at_ms HAVING sum(jobs) <> 0
UNION ALL
SELECT 'record ' || shelf || '/' || key || ' lies beyond the counter' FROM records
WHERE rev > (SELECT next_rev FROM head)
UNION ALL
SELECT 'job ' || shown.seq || ' is ready at a gate that sleeps, or is gone' FROM shown
WHERE shown.gate NOT IN (SELECT number FROM gates WHERE awake = 1)
UNION ALL
SELECT 'job ' || jobs.seq || ' stands at a gate of another sort' FROM jobs LEFT JOIN gates ON gates.number = jobs.gate_number
WHERE (jobs.queue, jobs.kind, coalesce(jobs.budgets, '')) IS NOT (gates.queue, gates.kind, gates.budgets)
