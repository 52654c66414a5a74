INSERT INTO windlass.schedules (name, doc, next_ms) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET doc = excluded.doc WHERE false
RETURNING name
