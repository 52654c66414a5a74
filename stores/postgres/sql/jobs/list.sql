SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, coalesce(r.run_at_ms, j.run_at_ms), coalesce(r.state, p.running,
           0::smallint),
       coalesce(r.attempt, p.running, 0), coalesce(r.crashes, 0), coalesce(r.fence, p.fence, 0), coalesce(r.retries, 0),
       coalesce(r.started_ms, p.started_ms), coalesce(r.worker, p.worker), coalesce(r.lease_ms, p.lease_ms),
       coalesce(r.expires_ms, p.due_ms), coalesce(r.cancel_requested, false), r.marked_ms, r.ended_ms, r.failure,
           r.result,
       r.progress, r.history, NULL::text AS policy, NULL::text AS steps
