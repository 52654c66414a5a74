SELECT (SELECT min(expires_ms) FROM windlass.jobs WHERE lease_ms IS NOT NULL), windlass.begin_1($1)
