-- Lower case by the C collation changes ASCII letters only; strpos knows no wildcards.
  FROM windlass.jobs j LEFT JOIN windlass.runs r ON r.seq = j.seq AND r.seq >= $1 AND r.seq < $2
  LEFT JOIN LATERAL (
       SELECT 1::smallint AS running, g.fence, g.started_ms, g.lease_ms, g.due_ms, g.worker FROM windlass.grants g
        WHERE r.seq IS NULL AND g.block = j.seq >> 6 AND g.open & windlass.bit_1(j.seq) <> 0
        LIMIT 1) p ON true
 WHERE j.seq >= $1 AND j.seq < $2
   AND ($3::smallint[] IS NULL OR coalesce(r.state, p.running, 0::smallint) = ANY ($3))
   AND ($4::text IS NULL OR j.queue = $4)
   AND ($5::text IS NULL OR j.kind = $5)
   AND ($6::text IS NULL OR j.key = $6)
   AND ($7::bigint IS NULL OR j.created_ms >= $7)
   AND ($8::bigint IS NULL OR j.created_ms < $8)
   AND ($9::text IS NULL OR strpos(j.id::text, $9) > 0 OR strpos(lower(j.kind), $9) > 0
        OR strpos(lower(j.key), $9) > 0 OR strpos(lower(j.payload COLLATE "C"), $9) > 0)
