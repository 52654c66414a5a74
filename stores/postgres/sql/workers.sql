SELECT name, queues, kinds, slots, running, started_ms, seen_ms, version, host FROM windlass.workers ORDER BY name
