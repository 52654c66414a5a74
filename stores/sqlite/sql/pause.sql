-- name: clear
DELETE FROM pauses

-- name: fix
-- Mirrors Book::pauses_now.
INSERT INTO pauses (queue, pause_ms)
SELECT n.queue, min(?1, max(
  coalesce(json_extract(q.policy, '$.lease_ms'), ?2),
  coalesce((SELECT max(l.lease_ms) FROM long_leases AS l WHERE l.queue = n.queue), 0)))
FROM (SELECT name AS queue FROM queues UNION SELECT queue FROM long_leases) AS n
LEFT JOIN queues AS q ON q.name = n.queue

-- name: load
SELECT pause_ms FROM pauses WHERE queue = ?1
