-- name: after
SELECT rank, seq, again FROM line
WHERE slot = ?1 AND gate = ?2 AND (rank, seq) > (?3, ?4) ORDER BY rank, seq LIMIT ?5

-- name: delete
DELETE FROM line WHERE slot = ?1 AND gate = ?2 AND rank = ?3 AND seq = ?4

-- name: has_before
-- Whether the one before it waits. Those that have left stand before all that wait: if it has left, all have.
SELECT leases.seq IS NULL AND coalesce(past.state, 0) = 0
FROM line LEFT JOIN leases ON leases.seq = line.seq LEFT JOIN past ON past.seq = line.seq
WHERE slot = ?1 AND gate = ?2 AND (rank, line.seq) < (?3, ?4) ORDER BY rank DESC, line.seq DESC LIMIT 1

-- name: insert
-- Its row may still be there from before it ran.
INSERT INTO line (slot, gate, rank, seq, again) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET again = ?5

-- name: look
-- In order, with where each is in its life: whoever looks stops at the first that waits.
SELECT rank, line.seq, again, leases.seq IS NOT NULL, coalesce(past.state, 0) <> 0
FROM line LEFT JOIN leases ON leases.seq = line.seq LEFT JOIN past ON past.seq = line.seq
WHERE slot = ?1 AND gate = ?2 ORDER BY rank, line.seq

-- name: next_gate
SELECT gate FROM line WHERE slot = ?1 AND gate >= ?2 ORDER BY gate LIMIT 1

-- name: sweep
DELETE FROM line WHERE slot = ?1 AND gate = ?2 AND (rank, seq) <= (?3, ?4)
