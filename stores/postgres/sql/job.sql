-- name: ahead
SELECT count(*) FROM (
    SELECT FROM (
        SELECT r.rank, u.seq FROM windlass.ready r CROSS JOIN unnest(r.seq || r.more_seqs) AS u(seq)
         WHERE r.room BETWEEN windlass.room_1($1, NULL) AND windlass.room_1($1, NULL) | 4294967295
             AND split_part(r.label, chr(31), 1) = $1 AND r.run_at_ms <= $2
        UNION ALL
        SELECT j.rank, j.seq FROM windlass.delayed d JOIN windlass.jobs j ON j.seq = d.seq WHERE d.queue = $1
            AND d.run_at_ms <= $2
        UNION ALL
        SELECT w.rank, w.seq FROM windlass.waiting w WHERE w.queue = $1 AND w.run_at_ms <= $2) due
     WHERE (due.rank, due.seq) < ($3, $4)
     LIMIT $5) first

-- name: enqueue
SELECT there, deduplicated FROM windlass.enqueue_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

-- name: floor
SELECT seq FROM windlass.jobs WHERE seq < $1 ORDER BY seq DESC OFFSET $2 LIMIT 1

-- name: get
SELECT * FROM windlass.jobs_1 WHERE id = $1

-- name: get_many
SELECT * FROM windlass.jobs_1 WHERE id = ANY ($1)

-- name: holders
SELECT id, queue, worker FROM windlass.jobs_1 WHERE id = ANY ($1)

-- name: lock
SELECT * FROM windlass.lock_jobs_1($1)

-- name: save
SELECT windlass.save_1($1, $2::text::json, $3::text::json)::text

-- name: sweep
SELECT windlass.prune_jobs_1($1, $2, $3, $4)
