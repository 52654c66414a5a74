-- Lower case by the C collation changes ASCII letters only; strpos knows no wildcards.
SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, j.run_at_ms, j.state, j.attempt, j.crashes, j.fence,
       j.retries, j.started_ms, j.worker, j.lease_ms, j.expires_ms, j.cancel_requested, j.ended_ms,
       j.failure, j.result, j.progress, j.history, NULL::text AS policy, NULL::text AS steps
  FROM windlass.jobs j
 WHERE j.seq >= $1 AND j.seq < $2
   AND ($4::smallint[] IS NULL OR j.state = ANY ($4))
   AND ($5::text IS NULL OR j.queue = $5)
   AND ($6::text IS NULL OR j.kind = $6)
   AND ($7::text IS NULL OR j.key = $7)
   AND ($8::bigint IS NULL OR j.created_ms >= $8)
   AND ($9::bigint IS NULL OR j.created_ms < $9)
   AND ($10::text IS NULL OR strpos(j.id::text, $10) > 0 OR strpos(lower(j.kind), $10) > 0
        OR strpos(lower(j.key), $10) > 0 OR strpos(lower(j.payload COLLATE "C"), $10) > 0)
 ORDER BY j.seq DESC
 LIMIT $3
