SELECT FROM windlass.queues q WHERE q.name = $1 FOR UPDATE
