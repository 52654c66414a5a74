SELECT (SELECT min(expires_ms) FROM windlass.jobs WHERE state = 1), windlass.begin_1($1)
