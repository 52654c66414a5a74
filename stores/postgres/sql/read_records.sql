SELECT r.key, r.sort, r.rev, r.written_ms, r.expires_ms, r.label, r.value, u.ord
  FROM unnest($2::text[]) WITH ORDINALITY AS u(key, ord)
  JOIN windlass.records r ON r.shelf = $1 AND r.key = u.key
 WHERE r.expires_ms IS NULL OR r.expires_ms > coalesce($3, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
