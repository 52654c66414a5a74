-- name: cancel
UPDATE leases SET cancel_requested = 1 WHERE seq = ?1

-- name: claim
-- Leases of one length, for jobs that were never claimed before. OR FAIL: what a failed call has
-- written is undone as a whole, so SQLite need not keep a journal of the statement alone.
INSERT OR FAIL INTO leases (seq, fence, attempt, started_ms, lease_ms, expires_ms, worker)
SELECT value, ?6, 1, ?2, ?3, ?4, ?5 FROM rarray(?1)

-- name: claim_again
INSERT INTO leases (seq, fence, attempt, started_ms, lease_ms, expires_ms, worker)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: complete
-- Those without a result, at once. CROSS JOIN: SQLite must not turn the loops around.
INSERT OR FAIL INTO past (seq, state, fence, attempt, started_ms, ended_ms, worker)
SELECT seq, 2, fence, attempt, started_ms, ?2, worker FROM rarray(?1) AS done CROSS JOIN leases ON seq = done.value

-- name: complete_range
-- Jobs that stand beside each other in the order of acceptance, as those of a claim often do.
INSERT OR FAIL INTO past (seq, state, fence, attempt, started_ms, ended_ms, worker)
SELECT seq, 2, fence, attempt, started_ms, ?3, worker FROM leases WHERE seq BETWEEN ?1 AND ?2

-- name: complete_with
INSERT INTO past (seq, state, fence, attempt, started_ms, ended_ms, worker, result)
SELECT seq, 2, fence, attempt, started_ms, ?2, worker, ?3 FROM leases WHERE seq = ?1

-- name: delete
DELETE FROM leases WHERE seq = ?1

-- name: delete_many
DELETE FROM leases WHERE seq IN (SELECT value FROM rarray(?1))

-- name: delete_range
DELETE FROM leases WHERE seq BETWEEN ?1 AND ?2

-- name: held
SELECT jobs.seq, lease_ms, cancel_requested, steps_count, attempt FROM jobs CROSS JOIN leases ON leases.seq = jobs.seq
WHERE id = ?1 AND fence = ?2

-- name: held_many
-- CROSS JOIN: SQLite must not turn the loops around.
SELECT seq, fence FROM rarray(?1) AS asked CROSS JOIN leases ON seq = asked.value

-- name: held_range
SELECT seq, fence FROM leases WHERE seq BETWEEN ?1 AND ?2

-- name: look_next
-- The same as in jobs/look_due.sql.
SELECT min(coalesce(max(expires_ms, marked_ms + min(max(lease_ms / 3, ?1), ?2)), expires_ms - min(lease_ms / 3, ?2))) FROM leases

-- name: mark
UPDATE leases SET marked_ms = ?2 WHERE seq = ?1

-- name: queue
SELECT queue FROM jobs WHERE seq = ?1

-- name: renew
UPDATE leases SET expires_ms = ?2, marked_ms = NULL WHERE seq = ?1

-- name: renew_all
-- The beginning of an epoch: mirrors Lease::renew_from.
UPDATE leases SET expires_ms = max(expires_ms, min(?1 + lease_ms, ?2)), marked_ms = NULL

-- name: shift
UPDATE leases SET expires_ms = min(max(expires_ms + ?1, ?2), ?3), marked_ms = min(max(marked_ms + ?1, ?2), ?3)
