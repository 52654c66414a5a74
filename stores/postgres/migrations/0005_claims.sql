-- Functions are made anew with each version of the schema; those of the version
-- before go first, since some of them answer with other columns now.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE p.pronamespace = 'windlass'::regnamespace LOOP
        EXECUTE 'DROP FUNCTION ' || f.name;
    END LOOP;
END $$;
DROP VIEW windlass.jobs_1;

-- A part of a claim has a number that is never given twice, so that what a
-- program remembers of it can be wrong only by being gone: a request id may be
-- used again once it is forgotten. The first part of a request is marked, so
-- that the same request cannot be answered twice at once.
CREATE SEQUENCE windlass.claim_number AS bigint;
ALTER TABLE windlass.claims DROP CONSTRAINT claims_pkey;
ALTER TABLE windlass.claims ADD COLUMN number bigint NOT NULL DEFAULT nextval('windlass.claim_number') PRIMARY KEY;
ALTER TABLE windlass.claims ALTER COLUMN part DROP NOT NULL;
UPDATE windlass.claims SET part = NULL WHERE part <> (
    SELECT min(other.part) FROM windlass.claims other WHERE other.request_id = claims.request_id);
UPDATE windlass.claims SET part = 1 WHERE part IS NOT NULL;
ALTER TABLE windlass.claims ADD CHECK (part = 1);
CREATE UNIQUE INDEX claims_request ON windlass.claims (request_id, part);
-- Whose request it was, and what it may be given: ClaimRequest::asked. What was written without it is given to nobody.
ALTER TABLE windlass.claims ADD COLUMN asked text;
-- The claim that may hold a job open is found by the job's number, however many are open.
CREATE INDEX claims_span ON windlass.claims USING gist (int8range(low, high, '[]')) WHERE due_ms IS NOT NULL;

-- One job with its queue's policy and its steps: the shape that the program reads.
-- "pack" is the part of the claim that holds it open.
CREATE VIEW windlass.jobs_1 AS
SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, coalesce(r.run_at_ms, j.run_at_ms) AS run_at_ms,
       coalesce(r.state, p.running, 0::smallint) AS state, coalesce(r.attempt, p.running, 0) AS attempt,
       coalesce(r.crashes, 0) AS crashes, coalesce(r.fence, p.running, 0) AS fence, coalesce(r.retries, 0) AS retries,
       coalesce(r.started_ms, p.started_ms) AS started_ms, coalesce(r.worker, p.worker) AS worker,
       coalesce(r.lease_ms, p.lease_ms) AS lease_ms, coalesce(r.expires_ms, p.due_ms) AS expires_ms,
       coalesce(r.cancel_requested, false) AS cancel_requested, r.ended_ms, r.failure, r.result,
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
