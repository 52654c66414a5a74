-- name: lock
SELECT windlass.lock_batches_1($1, $2)::text
