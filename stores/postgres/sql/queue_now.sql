SELECT coalesce((SELECT q.paused FROM windlass.queues q WHERE q.name = $1), false),
       (SELECT count(*) FROM windlass.jobs j WHERE j.lease_ms IS NOT NULL AND j.queue = $1),
       (SELECT j.id FROM windlass.jobs j WHERE j.state = 1 AND j.queue = $1 AND j.key = $2 LIMIT 1)
