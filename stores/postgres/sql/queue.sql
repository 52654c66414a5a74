-- name: all
-- What is counted is read off "tally", which has few rows of each name, and the oldest of each queue off the heads of
-- indexes: nothing here costs more when more is stored.
WITH t AS (SELECT windlass.begin_1($1) AS now_ms),
counted AS (
    SELECT c.name, sum(c.queued)::bigint AS queued, sum(c.delta)::bigint AS running FROM windlass.tally c
     WHERE c.what = 0 GROUP BY c.name HAVING sum(c.queued) > 0 OR sum(c.delta) > 0
), queues AS (
    SELECT coalesce(q.name, c.name) AS name, q.policy, coalesce(q.paused, false) AS paused,
           coalesce(c.queued, 0) AS queued, coalesce(c.running, 0) AS running
      FROM windlass.queues q FULL JOIN counted c ON c.name = q.name
)
SELECT q.name, q.policy, q.paused, q.queued, q.running, CASE WHEN q.queued > 0 THEN least(
       (SELECT r.run_at_ms FROM windlass.ready r WHERE split_part(r.label, chr(31), 1) = q.name
         ORDER BY split_part(r.label, chr(31), 1), r.run_at_ms LIMIT 1),
       (SELECT w.run_at_ms FROM windlass.waiting w WHERE w.queue = q.name ORDER BY w.queue, w.run_at_ms LIMIT 1),
       (SELECT d.run_at_ms FROM windlass.delayed d WHERE d.queue = q.name AND d.run_at_ms <= t.now_ms
         ORDER BY d.queue, d.run_at_ms, d.seq LIMIT 1)) END
  FROM queues q CROSS JOIN t
 ORDER BY q.name

-- name: delete
DELETE FROM windlass.queues q WHERE q.name = $1

-- name: lock
SELECT FROM windlass.queues q WHERE q.name = $1 FOR UPDATE

-- name: now
SELECT coalesce((SELECT q.paused FROM windlass.queues q WHERE q.name = $1), false),
       windlass.running_1(0, $1),
       (SELECT j.id FROM windlass.keys k JOIN windlass.jobs j ON j.seq = k.holder WHERE k.queue = $1 AND k.key = $2)

-- name: pause
INSERT INTO windlass.queues
       (name, policy, paused, limit_jobs, lease_ms, ageing_ms, delete_finished, retention_ms, finished_max)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused

-- name: put
-- What was claimed until now has the leases of before.
WITH noted AS MATERIALIZED (SELECT windlass.note_shorter_1($10, $1, $5))
INSERT INTO windlass.queues
       (name, policy, paused, limit_jobs, lease_ms, ageing_ms, delete_finished, retention_ms, finished_max)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 FROM noted
ON CONFLICT (name) DO UPDATE
   SET policy = excluded.policy, limit_jobs = excluded.limit_jobs, lease_ms = excluded.lease_ms,
       ageing_ms = excluded.ageing_ms, delete_finished = excluded.delete_finished,
       retention_ms = excluded.retention_ms, finished_max = excluded.finished_max
