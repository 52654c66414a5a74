-- Everything that is decided in the program: lock, read, decide there, save.

-- Locks jobs, after their keys, and gives them as they now are.
CREATE FUNCTION windlass.lock_jobs_1(p_ids uuid[]) RETURNS SETOF windlass.jobs_1 LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_queues text[];
    v_keys text[];
BEGIN
    SELECT array_agg(j.queue), array_agg(j.key) INTO v_queues, v_keys
      FROM windlass.jobs j WHERE j.id = ANY (p_ids) AND j.key IS NOT NULL;
    IF v_keys IS NOT NULL THEN
        PERFORM windlass.lock_keys_1(v_queues, v_keys);
    END IF;
    PERFORM FROM windlass.jobs j WHERE j.id = ANY (p_ids) ORDER BY j.id FOR UPDATE;
    RETURN QUERY SELECT * FROM windlass.jobs_1 j WHERE j.id = ANY (p_ids);
END $$;

-- Writes back what moved, deletes what its queue does not keep, exposes what
-- waited behind the keys, and notes the events. The jobs are locked, and so
-- are their keys.
CREATE FUNCTION windlass.save_1(p_now bigint, p_rows json, p_events json) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_queues text[];
    v_keys text[];
    v_doomed bigint[];
BEGIN
    WITH saved AS (
        UPDATE windlass.jobs j
           SET run_at_ms = r.run_at_ms, state = r.state, attempt = r.attempt, crashes = r.crashes, fence = r.fence,
               retries = r.retries, started_ms = r.started_ms, worker = r.worker, lease_ms = r.lease_ms,
               expires_ms = r.expires_ms, cancel_requested = r.cancel_requested, ended_ms = r.ended_ms,
               failure = r.failure, result = r.result, progress = r.progress, history = r.history,
               lane = CASE WHEN r.state <> 0 THEN NULL
                           WHEN r.run_at_ms > p_now THEN 2
                           WHEN j.key IS NOT NULL THEN 3 ELSE 1 END
          FROM json_to_recordset(p_rows) AS r(
               seq bigint, run_at_ms bigint, state smallint, attempt integer, crashes integer, fence bigint,
               retries integer, started_ms bigint, worker text, lease_ms bigint, expires_ms bigint,
               cancel_requested boolean, ended_ms bigint, failure smallint, result text, progress text,
               history text, doomed boolean)
         WHERE j.seq = r.seq
        RETURNING j.seq, j.queue, j.key, r.doomed
    )
    SELECT array_agg(s.queue) FILTER (WHERE s.key IS NOT NULL), array_agg(s.key) FILTER (WHERE s.key IS NOT NULL),
           array_agg(s.seq) FILTER (WHERE s.doomed)
      INTO v_queues, v_keys, v_doomed FROM saved s;
    IF v_doomed IS NOT NULL THEN
        PERFORM windlass.delete_1(v_doomed);
    END IF;
    IF v_keys IS NOT NULL THEN
        PERFORM windlass.expose_1(v_queues, v_keys);
    END IF;
    PERFORM windlass.note_1(p_now, p_events);
END $$;

-- Writes down what happened.
CREATE FUNCTION windlass.note_1(p_now bigint, p_events json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.events (at_ms, what, queue, jobs)
    SELECT p_now, e.what, e.queue, e.jobs FROM json_to_recordset(p_events) AS e(what smallint, queue text, jobs uuid[]);
END $$;

-- The leases that have run out, those that ran out first first.
CREATE FUNCTION windlass.run_out_1(p_now bigint, p_max integer) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
    SELECT j.id FROM windlass.jobs j WHERE j.lease_ms IS NOT NULL AND j.expires_ms <= p_now
     ORDER BY j.expires_ms, j.seq LIMIT p_max
$$;

-- Deletes finished jobs that their retention has outlived, by age and by
-- number. Queues go by name, jobs by their end. Whether a queue has too many
-- is only counted where the table is large enough for it.
CREATE FUNCTION windlass.prune_jobs_1(p_now bigint, p_max integer, p_retention_ms bigint, p_finished_max bigint)
RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_left integer := p_max;
    v_queue text;
    v_retention bigint;
    v_max bigint;
    v_surplus bigint;
    v_rows real := (SELECT c.reltuples FROM pg_class c WHERE c.oid = 'windlass.jobs'::regclass);
    v_seqs bigint[];
BEGIN
    LOOP
        SELECT j.queue INTO v_queue FROM windlass.jobs j
         WHERE j.state >= 2 AND (v_queue IS NULL OR j.queue > v_queue) ORDER BY j.queue LIMIT 1;
        EXIT WHEN NOT FOUND OR v_left <= 0;
        SELECT q.retention_ms, q.finished_max INTO v_retention, v_max FROM windlass.queues q WHERE q.name = v_queue;
        v_retention := coalesce(v_retention, p_retention_ms);
        v_max := coalesce(v_max, p_finished_max);
        v_surplus := 0;
        IF v_max < 2 * greatest(v_rows, 0) + 100000 THEN
            SELECT greatest(0, count(*) - v_max) INTO v_surplus
              FROM windlass.jobs j WHERE j.state >= 2 AND j.queue = v_queue;
        END IF;
        SELECT array_agg(d.seq) INTO v_seqs FROM (
            SELECT o.seq FROM (
                SELECT j.seq, j.ended_ms, row_number() OVER (ORDER BY j.ended_ms, j.seq) AS n
                  FROM (SELECT i.seq, i.ended_ms FROM windlass.jobs i
                         WHERE i.state >= 2 AND i.queue = v_queue
                         ORDER BY i.queue, i.ended_ms, i.seq LIMIT v_left) j) o
             WHERE o.n <= v_surplus OR o.ended_ms <= p_now - v_retention) d;
        -- A retry may be giving one of them a new life: those are left alone.
        SELECT array_agg(l.seq) INTO v_seqs FROM (
            SELECT j.seq FROM windlass.jobs j WHERE j.seq = ANY (v_seqs) AND j.state >= 2 FOR UPDATE SKIP LOCKED) l;
        IF v_seqs IS NOT NULL THEN
            PERFORM windlass.delete_1(v_seqs);
            v_left := v_left - cardinality(v_seqs);
        END IF;
    END LOOP;
    RETURN p_max - v_left;
END $$;

-- Deletes remembered claims, silent workers, old events, and keys of no job.
CREATE FUNCTION windlass.prune_rest_1(p_now bigint, p_claim_ms bigint, p_worker_ms bigint, p_events bigint)
RETURNS void LANGUAGE plpgsql
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_queues text[];
    v_keys text[];
BEGIN
    DELETE FROM windlass.claims WHERE at_ms <= p_now - p_claim_ms;
    DELETE FROM windlass.workers WHERE seen_ms <= p_now - p_worker_ms;
    DELETE FROM windlass.events WHERE pos <= (SELECT max(pos) FROM windlass.events) - p_events;
    -- A key that is locked is in use. One that we hold cannot be added to.
    SELECT array_agg(k.queue), array_agg(k.key) INTO v_queues, v_keys FROM (
        SELECT k.queue, k.key FROM windlass.keys k
         WHERE NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.queue = k.queue AND j.key = k.key AND j.lane = 1)
           AND NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.queue = k.queue AND j.key = k.key AND j.lane = 3)
           AND NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.queue = k.queue AND j.key = k.key AND j.state = 1)
         LIMIT 10000 FOR UPDATE SKIP LOCKED) k;
    DELETE FROM windlass.keys k USING unnest(v_queues, v_keys) AS u(queue, key)
     WHERE k.queue = u.queue AND k.key = u.key
       AND NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.queue = k.queue AND j.key = k.key AND j.lane = 1)
       AND NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.queue = k.queue AND j.key = k.key AND j.lane = 3)
       AND NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.queue = k.queue AND j.key = k.key AND j.state = 1);
END $$;
