-- name: count
SELECT r.label, count(*) FROM windlass.records r
 WHERE r.shelf = $1 AND r.key >= $2 AND ($3::text IS NULL OR r.key < $3)
   AND (r.expires_ms IS NULL OR r.expires_ms > coalesce($4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
 GROUP BY r.label ORDER BY r.label NULLS FIRST

-- name: read
SELECT r.key, r.sort, r.rev, r.written_ms, r.expires_ms, r.label, r.value, u.ord
  FROM unnest($2::text[]) WITH ORDINALITY AS u(key, ord)
  JOIN windlass.records r ON r.shelf = $1 AND r.key = u.key
 WHERE r.expires_ms IS NULL OR r.expires_ms > coalesce($3, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)

-- name: scan
-- The words in braces are filled in by src/scan.rs, from what was asked. A record with which the page would have too
-- many bytes comes without its value, unless it is the first.
SELECT p.key, p.sort, p.rev, p.written_ms, p.expires_ms, p.label, CASE WHEN p.bytes <= $6 OR p.n = 1 THEN p.value END
  FROM (SELECT r.*, sum(octet_length(r.value)) OVER page AS bytes, row_number() OVER page AS n
          FROM (SELECT r.* FROM windlass.records r
                 WHERE r.shelf = $1 AND {range} AND {label} AND (r.expires_ms IS NULL OR r.expires_ms
                       > coalesce($4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
                 ORDER BY {order}
                 LIMIT $5) r
        WINDOW page AS (ORDER BY {order})) p
 ORDER BY p.n

-- name: sweep
SELECT windlass.prune_records_1($1, $2, $3)

-- name: write
SELECT outcome, ord, rev, revs, jobs, deduplicated
  FROM windlass.write_records_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
                                $20, $21, $22, $23, $24, $25)
