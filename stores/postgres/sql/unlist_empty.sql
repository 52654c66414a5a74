DELETE FROM windlass.ended e USING unnest($1::text[], $2::bigint[]) AS u(queue, ended_ms)
 WHERE e.queue = u.queue AND e.ended_ms = u.ended_ms AND e.jobs = 0
