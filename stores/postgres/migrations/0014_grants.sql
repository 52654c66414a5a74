-- Requests and grants are apart: what a claim asked and was answered, and who runs. Programs of the thirteenth schema
-- that are running go on: what they call is here under the same names, and "claims", which they read, is a view of the
-- grants. Whoever is under way ends first, and whoever comes waits at the epoch, which every call reads first.
LOCK TABLE windlass.epoch;
LOCK TABLE windlass.claims;

-- What was given for a request, so that the same request gets the same leases: the grants by block and number.
CREATE TABLE windlass.requests (
    request_id uuid PRIMARY KEY,
    at_ms      bigint NOT NULL,
    -- Whose request it was, and what it may be given: ClaimRequest::asked. What was written without it is given to
    -- nobody.
    asked      text,
    blocks     bigint[] NOT NULL,
    numbers    bigint[] NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX requests_at ON windlass.requests (at_ms);

-- Who runs: what one claim gave at one gate, a row for each block of 64 numbers, and in it a bit for each job. A job
-- that runs has its bit in one row, and a bit is taken away when its job runs no more; a row without any is gone.
--
-- Leases of jobs that run for the first time are written here and nowhere else: they are the open ones, which have no
-- row in "runs". They run out at due_ms, and no other of the row does before. Most of them end long before anything
-- else happens to them, and then the row that says so is the only one that is written for the job. Whoever wants to do
-- something else with one of them gives it a row first (windlass.unpack_1). Who holds this row holds its leases.
CREATE TABLE windlass.grants (
    block      bigint NOT NULL,
    -- Of the claim and gate; never given twice.
    number     bigint NOT NULL,
    given      bigint NOT NULL,
    open       bigint NOT NULL,
    due_ms     bigint NOT NULL,
    started_ms bigint NOT NULL,
    lease_ms   bigint NOT NULL,
    -- Of the open ones: all of them are the first leases of their jobs.
    fence      bigint NOT NULL CHECK (fence > 0),
    worker     text NOT NULL,
    label      text COLLATE "C" NOT NULL,
    PRIMARY KEY (block, number),
    CHECK (given <> 0 AND open & ~given = 0)
) WITH (fillfactor = 80, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_cost_delay = 1);
-- Found by when the first of their leases is near its end: windlass.look_1 of a lease that was never marked; an index
-- cannot call a function that is made anew.
CREATE INDEX grants_look ON windlass.grants ((due_ms - least(lease_ms / 3, 60000)));

WITH lease AS (
    SELECT c.*, u.seq, r.seq IS NULL AS is_open
      FROM windlass.claims c CROSS JOIN unnest(c.seqs, c.fences) AS u(seq, leased_as)
      JOIN windlass.jobs j ON j.seq = u.seq
      LEFT JOIN windlass.runs r ON r.seq = u.seq
     WHERE c.due_ms IS NOT NULL AND (r.seq IS NULL AND c.open > 0 OR r.state = 1 AND r.fence = u.leased_as)
)
INSERT INTO windlass.grants (block, number, given, open, due_ms, started_ms, lease_ms, fence, worker, label)
SELECT l.seq >> 6, l.number, bit_or(1::bigint << (l.seq & 63)::integer),
       coalesce(bit_or(1::bigint << (l.seq & 63)::integer) FILTER (WHERE l.is_open), 0),
       l.due_ms, l.started_ms, l.lease_ms, l.fence, l.worker, l.label
  FROM lease l GROUP BY l.seq >> 6, l.number, l.due_ms, l.started_ms, l.lease_ms, l.fence, l.worker, l.label;
INSERT INTO windlass.requests (request_id, at_ms, asked, blocks, numbers)
SELECT c.request_id, max(c.at_ms), max(c.asked), coalesce(array_agg(g.block) FILTER (WHERE g.block IS NOT NULL), '{}'),
       coalesce(array_agg(g.number) FILTER (WHERE g.block IS NOT NULL), '{}')
  FROM windlass.claims c LEFT JOIN windlass.grants g ON g.number = c.number
 WHERE c.at_ms IS NOT NULL GROUP BY c.request_id;

-- One job with its queue's policy and its steps: the shape that the program reads. "pack" is the grant that holds it
-- open.
CREATE OR REPLACE VIEW windlass.jobs_1 AS
SELECT j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
       j.timeout_ms, j.meta, j.rank, j.created_ms, coalesce(r.run_at_ms, j.run_at_ms) AS run_at_ms,
       coalesce(r.state, p.running, 0::smallint) AS state, coalesce(r.attempt, p.running, 0) AS attempt,
       coalesce(r.crashes, 0) AS crashes, coalesce(r.fence, p.fence, 0) AS fence, coalesce(r.retries, 0) AS retries,
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
       SELECT 1::smallint AS running, g.number, g.fence, g.started_ms, g.lease_ms, g.due_ms, g.worker FROM windlass.grants g
        WHERE r.seq IS NULL AND g.block = j.seq >> 6 AND (g.open >> (j.seq & 63)::integer) & 1 = 1
        LIMIT 1) p ON true
  LEFT JOIN windlass.queues q ON q.name = j.queue;

-- What programs of the thirteenth schema read of claims that are open. The schema after this one takes it away.
DROP TABLE windlass.claims;
CREATE VIEW windlass.claims AS
SELECT NULL::uuid AS request_id, g.number, g.due_ms, s.seqs, s.fences, s.open, g.block << 6 AS low,
       (g.block << 6) + 63 AS high, g.started_ms, g.lease_ms, g.worker, g.label, g.fence
  FROM windlass.grants g
 CROSS JOIN LATERAL (
       SELECT array_agg(u.seq) AS seqs, array_agg(coalesce(r.fence, g.fence)) AS fences,
              count(*) FILTER (WHERE (g.open >> u.n) & 1 = 1)::integer AS open
         FROM (SELECT n, (g.block << 6) | n AS seq FROM generate_series(0, 63) AS n WHERE (g.given >> n) & 1 = 1) u
         LEFT JOIN windlass.runs r ON r.seq = u.seq) s;

-- What they call to settle; the claims and places that their tickets name are passed over.
CREATE OR REPLACE FUNCTION windlass.complete_2(
    p_now bigint, p_ids uuid[], p_fences bigint[], p_results text[], p_told uuid[],
    p_seqs bigint[], p_claims bigint[], p_at integer[])
RETURNS TABLE (done bigint, ids uuid[], queues text[], freed boolean) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM windlass.complete_3(p_now, p_ids, p_fences, p_results, p_told, p_seqs);
END $$;
-- What a call of theirs that waits for this commit calls next: it finds nothing, and all of it goes the long way.
CREATE OR REPLACE FUNCTION windlass.complete_open_2(
    p_now bigint, p_seqs bigint[], p_fences bigint[], p_results text[], p_claims bigint[], p_at integer[])
RETURNS TABLE (ords bigint[], labels text[], freed boolean) LANGUAGE plpgsql AS $$
BEGIN
END $$;
CREATE OR REPLACE FUNCTION windlass.complete_rows_1(p_now bigint, p_seqs bigint[], p_fences bigint[], p_results text[])
RETURNS TABLE (ords bigint[], labels text[], deduped boolean, freed boolean) LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_seqs bigint[];
BEGIN
    SELECT * INTO r FROM windlass.complete_rows_2(p_now, p_seqs, p_fences, p_results);
    IF r.ords IS NOT NULL THEN
        v_seqs := ARRAY(SELECT p_seqs[u.ord] FROM unnest(r.ords) AS u(ord));
        PERFORM windlass.ungrant_1(v_seqs);
        RETURN QUERY SELECT r.ords, r.labels, r.deduped, windlass.free_keys_1(v_seqs);
    END IF;
END $$;

-- What only calls of the twelfth schema called, and what nobody calls any more.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN
        SELECT p.oid::regprocedure FROM pg_proc p
         WHERE p.pronamespace = 'windlass'::regnamespace
           AND p.proname = ANY ('{lock_places_1,unready_1,fold_many_1,around_1,complete_claim_1,complete_claims_1,end_open_1,remember_parts_1}')
    LOOP
        EXECUTE format('DROP FUNCTION %s', f);
    END LOOP;
END $$;
