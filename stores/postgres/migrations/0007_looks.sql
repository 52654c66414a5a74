-- A lease is taken back in two looks: windlass_core::lease.

-- Functions are made anew with each version of the schema.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE p.pronamespace = 'windlass'::regnamespace LOOP
        EXECUTE 'DROP FUNCTION ' || f.name;
    END LOOP;
END $$;
DROP VIEW windlass.jobs_1;

-- When a lease was last seen near its end without a renewal: the first look. A lease that only its claim knows of was
-- never looked at: whoever marks it gives it a row first. Not indexed, as nothing of a run is that changes.
ALTER TABLE windlass.runs ADD COLUMN marked_ms bigint;
ALTER TABLE windlass.runs ADD CHECK (marked_ms IS NULL OR state = 1);

-- Claims are found by when the first of their leases is near its end, and no longer by when it runs out. The same as
-- windlass.look_1 of a lease that was never marked; an index cannot call a function that is made anew.
CREATE INDEX claims_look ON windlass.claims ((due_ms - least(lease_ms / 3, 60000))) WHERE due_ms IS NOT NULL;
DROP INDEX windlass.claims_due;

-- One job with its queue's policy and its steps: the shape that the program reads.
-- "pack" is the part of the claim that holds it open.
CREATE VIEW windlass.jobs_1 AS
SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, coalesce(r.run_at_ms, j.run_at_ms) AS run_at_ms,
       coalesce(r.state, p.running, 0::smallint) AS state, coalesce(r.attempt, p.running, 0) AS attempt,
       coalesce(r.crashes, 0) AS crashes, coalesce(r.fence, p.running, 0) AS fence, coalesce(r.retries, 0) AS retries,
       coalesce(r.started_ms, p.started_ms) AS started_ms, coalesce(r.worker, p.worker) AS worker,
       coalesce(r.lease_ms, p.lease_ms) AS lease_ms, coalesce(r.expires_ms, p.due_ms) AS expires_ms,
       coalesce(r.cancel_requested, false) AS cancel_requested, r.marked_ms, r.ended_ms, r.failure, r.result,
       r.progress, r.history, q.policy,
       CASE WHEN r.steps_count > 0 THEN
           (SELECT json_agg(json_build_array(s.name, s.output, s.attempt, s.stored_ms) ORDER BY s.ordinal)::text
              FROM windlass.steps s WHERE s.job_seq = j.seq)
       END AS steps,
       p.number AS pack
  FROM windlass.jobs j
  LEFT JOIN windlass.runs r ON r.seq = j.seq
  LEFT JOIN LATERAL (
       SELECT 1::smallint AS running, c.number, c.started_ms, c.lease_ms, c.due_ms, c.worker FROM windlass.claims c
        WHERE r.seq IS NULL AND c.due_ms IS NOT NULL AND c.open > 0
          AND int8range(c.low, c.high, '[]') @> j.seq AND j.seq = ANY (c.seqs)
        LIMIT 1) p ON true
  LEFT JOIN windlass.queues q ON q.name = j.queue;
