SELECT name, queues, kinds, slots, running, started_ms, seen_ms FROM windlass.workers ORDER BY name
