-- name: any_warned
SELECT 1 FROM keys_taken INDEXED BY keys_taken_warned WHERE warned = 1 LIMIT 1

-- name: delete
DELETE FROM keys_taken WHERE slot IN (SELECT value FROM rarray(?1))

-- name: find
SELECT gate, warned, seq FROM keys_taken WHERE slot = ?1

-- name: take
-- OR FAIL: what a failed call has written is undone as a whole.
INSERT OR FAIL INTO keys_taken (slot, seq, gate, rank, warned)
SELECT slot, seq, gate_number, rank, 0 FROM rarray(?1) AS claimed CROSS JOIN jobs ON jobs.seq = claimed.value

-- name: take_warned
INSERT INTO keys_taken (slot, seq, gate, rank, warned) VALUES (?1, ?2, ?3, ?4, 1)

-- name: warn
UPDATE keys_taken SET seq = ?2, gate = ?3, rank = ?4, warned = 1 WHERE slot = ?1

-- name: warned
SELECT slot FROM rarray(?1) AS freed CROSS JOIN keys_taken INDEXED BY keys_taken_warned ON slot = freed.value
WHERE warned = 1
