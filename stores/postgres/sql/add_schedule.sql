INSERT INTO windlass.schedules (name, doc) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET doc = excluded.doc WHERE false
RETURNING name
