SELECT coalesce((SELECT q.paused FROM windlass.queues q WHERE q.name = $1), false),
       windlass.running_1(0, $1),
       (SELECT j.id FROM windlass.keys k JOIN windlass.jobs j ON j.seq = k.holder WHERE k.queue = $1 AND k.key = $2)
