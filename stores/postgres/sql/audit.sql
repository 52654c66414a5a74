-- What must hold between the rows. Each row of the answer is a breach. What
-- one row must hold by itself, and what is unique, the schema sees to.
SELECT 'job ' || ready.id || ' is ready and its key is running' FROM windlass.jobs ready
 WHERE ready.lane = 1 AND ready.key IS NOT NULL AND EXISTS (
       SELECT FROM windlass.jobs other
        WHERE other.state = 1 AND other.queue = ready.queue AND other.key = ready.key)
UNION ALL
SELECT 'job ' || waiting.id || ' waits for nobody' FROM windlass.jobs waiting
 WHERE waiting.lane = 3 AND NOT EXISTS (
       SELECT FROM windlass.jobs other
        WHERE other.queue = waiting.queue AND other.key = waiting.key
          AND (other.state = 1 OR (other.lane = 1 AND other.gate = waiting.gate
               AND (other.rank, other.seq) < (waiting.rank, waiting.seq))))
UNION ALL
SELECT 'job ' || j.id || ' miscounts its steps' FROM windlass.jobs j
 WHERE j.steps_count <> (SELECT count(*) FROM windlass.steps s WHERE s.job_seq = j.seq)
UNION ALL
SELECT 'step of a job that is gone: ' || s.job_seq FROM windlass.steps s
 WHERE NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.seq = s.job_seq)
UNION ALL
SELECT 'job ' || j.id || ' counts more attempts than it was claimed' FROM windlass.jobs j WHERE j.attempt > j.fence
