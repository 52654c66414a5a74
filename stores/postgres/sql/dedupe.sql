-- name: holders
SELECT dedupe_held, id FROM windlass.jobs WHERE dedupe_held = ANY ($1)
