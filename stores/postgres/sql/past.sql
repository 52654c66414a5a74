-- name: sweep
SELECT windlass.prune_rest_1($1, $2, $3, $4)::text
