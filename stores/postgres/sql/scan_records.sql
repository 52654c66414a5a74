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
