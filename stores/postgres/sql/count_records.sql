SELECT r.label, count(*) FROM windlass.records r
 WHERE r.shelf = $1 AND r.key >= $2 AND ($3::text IS NULL OR r.key < $3)
   AND (r.expires_ms IS NULL OR r.expires_ms > coalesce($4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
 GROUP BY r.label ORDER BY r.label NULLS FIRST
