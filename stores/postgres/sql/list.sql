-- Lower case by the C collation changes ASCII letters only; strpos knows no wildcards.
SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, coalesce(r.run_at_ms, j.run_at_ms), coalesce(r.state, p.running, 0::smallint),
       coalesce(r.attempt, p.running, 0), coalesce(r.crashes, 0), coalesce(r.fence, p.fence, 0), coalesce(r.retries, 0),
       coalesce(r.started_ms, p.started_ms), coalesce(r.worker, p.worker), coalesce(r.lease_ms, p.lease_ms),
       coalesce(r.expires_ms, p.due_ms), coalesce(r.cancel_requested, false), r.marked_ms, r.ended_ms, r.failure, r.result,
       r.progress, r.history, NULL::text AS policy, NULL::text AS steps
  FROM windlass.jobs j LEFT JOIN windlass.runs r ON r.seq = j.seq AND r.seq >= $1 AND r.seq < $2
  LEFT JOIN LATERAL (
       SELECT 1::smallint AS running, c.fence, c.started_ms, c.lease_ms, c.due_ms, c.worker FROM windlass.claims c
        WHERE r.seq IS NULL AND c.due_ms IS NOT NULL AND c.open > 0
          AND int8range(c.low, c.high, '[]') @> j.seq AND j.seq = ANY (c.seqs)
        LIMIT 1) p ON true
 WHERE j.seq >= $1 AND j.seq < $2
   AND ($4::smallint[] IS NULL OR coalesce(r.state, p.running, 0::smallint) = ANY ($4))
   AND ($5::text IS NULL OR j.queue = $5)
   AND ($6::text IS NULL OR j.kind = $6)
   AND ($7::text IS NULL OR j.key = $7)
   AND ($8::bigint IS NULL OR j.created_ms >= $8)
   AND ($9::bigint IS NULL OR j.created_ms < $9)
   AND ($10::text IS NULL OR strpos(j.id::text, $10) > 0 OR strpos(lower(j.kind), $10) > 0
        OR strpos(lower(j.key), $10) > 0 OR strpos(lower(j.payload COLLATE "C"), $10) > 0)
 ORDER BY j.seq DESC
 LIMIT $3
