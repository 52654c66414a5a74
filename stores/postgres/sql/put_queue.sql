INSERT INTO windlass.queues
       (name, policy, paused, limit_jobs, lease_ms, ageing_ms, delete_finished, retention_ms, finished_max)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (name) DO UPDATE
   SET policy = excluded.policy, limit_jobs = excluded.limit_jobs, lease_ms = excluded.lease_ms,
       ageing_ms = excluded.ageing_ms, delete_finished = excluded.delete_finished,
       retention_ms = excluded.retention_ms, finished_max = excluded.finished_max
