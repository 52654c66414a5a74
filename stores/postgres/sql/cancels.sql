SELECT j.id FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS l(id, fence, ord)
  JOIN windlass.jobs j ON j.id = l.id AND j.state = 1 AND j.fence = l.fence
 WHERE j.cancel_requested AND j.expires_ms > windlass.begin_1($1)
 ORDER BY l.ord
