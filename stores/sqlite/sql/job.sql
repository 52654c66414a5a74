-- name: delete
DELETE FROM jobs WHERE seq = ?1

-- name: delete_from_line
DELETE FROM line WHERE (slot, gate, rank, seq) = (SELECT slot, gate_number, rank, seq FROM jobs WHERE seq = ?1)

-- name: id
SELECT id FROM jobs WHERE seq = ?1

-- name: insert
INSERT INTO jobs (
  seq, id, gate_number, rank, run_at_ms, created_ms, priority, timeout_ms, slot,
  kind, queue, key, dedupe_key, budgets, retry, meta, payload
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
ON CONFLICT DO NOTHING

-- name: known
SELECT seq, queue, slot, budgets, dedupe_key, gate_number, rank FROM jobs WHERE id = ?1

-- name: progress
UPDATE jobs SET progress = ?2 WHERE seq = ?1

-- name: update
UPDATE jobs SET run_at_ms = ?2, crashes = ?3, retries = ?4, progress = ?5, history = ?6 WHERE seq = ?1
