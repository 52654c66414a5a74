-- name: delete
DELETE FROM shown WHERE gate = ?1 AND rank = ?2 AND seq = ?3

-- name: disinherit
UPDATE shown SET heir = 0 WHERE gate = ?1 AND rank = ?2 AND seq = ?3 AND heir = 1

-- name: heirs
-- Those of one gate and rank. OR FAIL: what a failed call has written is undone as a whole.
INSERT OR FAIL INTO shown (gate, rank, seq, again, heir) SELECT ?2, ?3, value, ?4, 1 FROM rarray(?1)

-- name: insert
INSERT INTO shown (gate, rank, seq, again, heir) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: is_heir
SELECT heir FROM shown WHERE gate = ?1 AND rank = ?2 AND seq = ?3

-- name: take
DELETE FROM shown WHERE gate = ?1 AND (rank, seq) <= (?2, ?3)
