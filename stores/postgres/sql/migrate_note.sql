INSERT INTO windlass.migrations (version) VALUES ($1)
