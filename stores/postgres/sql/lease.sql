-- name: cancels
SELECT j.id FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS l(id, fence, ord)
  JOIN windlass.jobs j ON j.id = l.id
  JOIN windlass.runs r ON r.seq = j.seq AND r.state = 1 AND r.fence = l.fence
 WHERE r.cancel_requested
 ORDER BY l.ord

-- name: complete
SELECT done, ids, queues, freed FROM windlass.complete_3($1, $2, $3, $4, $5, $6)

-- name: look_due
SELECT windlass.to_look_at_1(windlass.begin_1($1), $2)

-- name: look_next
SELECT windlass.next_look_1(t.now_ms), t.now_ms FROM (SELECT windlass.begin_1($1) AS now_ms) t

-- name: progress
SELECT id, fence FROM windlass.progress_1($1, $2, $3, $4)

-- name: renew
SELECT id, fence, cancel_requested, still_ms, instance FROM windlass.renew_1($1, $2, $3)
