DELETE FROM windlass.queues q WHERE q.name = $1
