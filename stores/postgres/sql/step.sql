-- name: cut
-- Takes the steps of a job away from the one with this ordinal on; its row is locked.
WITH cut AS (DELETE FROM windlass.steps s WHERE s.job_seq = $1 AND s.ordinal >= $2)
UPDATE windlass.runs r SET steps_count = $2 WHERE r.seq = $1

-- name: store
SELECT written FROM windlass.store_steps_1($1, $2, $3, $4, $5, $6)
