SELECT j.id FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS l(id, fence, ord)
  JOIN windlass.jobs j ON j.id = l.id
  JOIN windlass.runs r ON r.seq = j.seq AND r.state = 1 AND r.fence = l.fence
 WHERE r.cancel_requested
 ORDER BY l.ord
