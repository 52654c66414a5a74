-- name: any
SELECT 1 FROM delayed LIMIT 1

-- name: delete
DELETE FROM delayed WHERE run_at_ms = ?1 AND seq = ?2

-- name: due
SELECT delayed.run_at_ms, jobs.seq, gate_number, rank, slot, EXISTS (SELECT 1 FROM past WHERE past.seq = jobs.seq)
FROM delayed CROSS JOIN jobs ON jobs.seq = delayed.seq
WHERE delayed.run_at_ms <= ?1 ORDER BY delayed.run_at_ms, delayed.seq LIMIT ?2

-- name: insert
INSERT INTO delayed (run_at_ms, seq) VALUES (?1, ?2)

-- name: next
SELECT delayed.run_at_ms, queue, kind FROM delayed CROSS JOIN jobs ON jobs.seq = delayed.seq
ORDER BY delayed.run_at_ms, delayed.seq LIMIT ?1

-- name: shift
UPDATE delayed SET run_at_ms = ?1 WHERE run_at_ms > ?1 AND run_at_ms <= ?2
