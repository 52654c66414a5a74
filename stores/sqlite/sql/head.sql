-- name: is_there
SELECT 1 FROM head

-- name: load
SELECT boot_id, offset_ms, seen_ms, next_seq, next_event, queues_rev, next_rev, commits, epoch_rev FROM head WHERE one = 1

-- name: save
INSERT INTO head (one, boot_id, offset_ms, seen_ms, next_seq, next_event, queues_rev, next_rev, commits, epoch_rev)
VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (one) DO UPDATE SET
  boot_id = ?1, offset_ms = ?2, seen_ms = ?3, next_seq = ?4, next_event = ?5, queues_rev = ?6, next_rev = ?7,
  commits = ?8, epoch_rev = ?9
