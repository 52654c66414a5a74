SELECT id FROM windlass.jobs WHERE dedupe_key = $1 AND state < 2
