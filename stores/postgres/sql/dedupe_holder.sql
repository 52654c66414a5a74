SELECT id FROM windlass.jobs WHERE dedupe_held = $1
