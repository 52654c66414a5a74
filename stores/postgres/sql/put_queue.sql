-- What was claimed until now has the leases of before.
WITH noted AS MATERIALIZED (SELECT windlass.note_shorter_1($10, $1, $5))
INSERT INTO windlass.queues
       (name, policy, paused, limit_jobs, lease_ms, ageing_ms, delete_finished, retention_ms, finished_max)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 FROM noted
ON CONFLICT (name) DO UPDATE
   SET policy = excluded.policy, limit_jobs = excluded.limit_jobs, lease_ms = excluded.lease_ms,
       ageing_ms = excluded.ageing_ms, delete_finished = excluded.delete_finished,
       retention_ms = excluded.retention_ms, finished_max = excluded.finished_max
