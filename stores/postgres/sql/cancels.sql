SELECT j.id FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS l(id, fence, ord)
  JOIN windlass.jobs j ON j.id = l.id
  JOIN windlass.runs r ON r.seq = j.seq AND r.state = 1 AND r.fence = l.fence
 WHERE r.cancel_requested AND r.expires_ms > windlass.begin_1($1)
 ORDER BY l.ord
