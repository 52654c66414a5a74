-- Everything that is decided in the program: lock, read, decide there, save.

-- Locks jobs, after their keys and their places in line, and gives them as they now are. Afterwards who is open in a
-- claim has a row of its own, and nothing of these jobs changes until the transaction ends.
-- Mirrors: nothing; what is decided of the jobs is windlass_core::transition. Test: conformance (every move).
CREATE FUNCTION windlass.lock_jobs_1(p_ids uuid[]) RETURNS SETOF windlass.jobs_1 LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_seqs bigint[];
    v_queues text[];
    v_keys text[];
    v_gates bigint[];
    v_held boolean;
BEGIN
    SELECT array_agg(j.seq), array_agg(j.queue) FILTER (WHERE j.key IS NOT NULL),
           array_agg(j.key) FILTER (WHERE j.key IS NOT NULL), array_agg(j.gate) FILTER (WHERE j.key IS NOT NULL)
      INTO v_seqs, v_queues, v_keys, v_gates FROM windlass.jobs j WHERE j.id = ANY (p_ids);
    PERFORM windlass.unpack_1(v_seqs);
    IF v_keys IS NOT NULL THEN
        PERFORM windlass.lock_keys_1(v_queues, v_keys, v_gates);
    END IF;
    v_held := windlass.lock_places_2(v_seqs) AND v_keys IS NULL;
    IF NOT v_held THEN
        -- One that was claimed while its place or its key was waited for is running now.
        PERFORM windlass.unpack_1(v_seqs);
        PERFORM FROM windlass.runs r WHERE r.seq = ANY (v_seqs) ORDER BY r.seq FOR UPDATE;
        -- A job that came into line just before it was locked has its place locked now.
        PERFORM windlass.lock_places_2(v_seqs);
    END IF;
    RETURN QUERY SELECT * FROM windlass.jobs_1 j WHERE j.seq = ANY (v_seqs);
END $$;

-- Deletes finished jobs that their retention has outlived, by age and by
-- number. Queues go by name, jobs by their end.
CREATE FUNCTION windlass.prune_jobs_1(p_now bigint, p_max integer, p_retention_ms bigint, p_finished_max bigint)
RETURNS bigint LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_left integer := p_max;
    v_queue text;
    v_retention bigint;
    v_max bigint;
    v_surplus bigint;
    v_until bigint;
    v_seqs bigint[];
BEGIN
    LOOP
        SELECT e.queue INTO v_queue FROM windlass.ended e
         WHERE v_queue IS NULL OR e.queue > v_queue ORDER BY e.queue LIMIT 1;
        EXIT WHEN NOT FOUND OR v_left <= 0;
        SELECT q.retention_ms, q.finished_max INTO v_retention, v_max FROM windlass.queues q WHERE q.name = v_queue;
        v_retention := coalesce(v_retention, p_retention_ms);
        v_max := coalesce(v_max, p_finished_max);
        SELECT greatest(0, sum(e.jobs) - v_max) INTO v_surplus FROM windlass.ended e WHERE e.queue = v_queue;
        -- The moment up to which there are enough of them, ended together or not.
        SELECT max(o.ended_ms) INTO v_until FROM (
            SELECT e.ended_ms, sum(e.jobs) OVER (ORDER BY e.ended_ms, e.pos) - e.jobs AS before FROM (
                SELECT e.ended_ms, e.pos, e.jobs FROM windlass.ended e WHERE e.queue = v_queue
                 ORDER BY e.queue, e.ended_ms, e.pos LIMIT v_left) e) o
         WHERE o.before < v_left AND (o.before < v_surplus OR o.ended_ms <= p_now - v_retention);
        CONTINUE WHEN v_until IS NULL;
        PERFORM FROM windlass.ended e WHERE e.queue = v_queue AND e.ended_ms <= v_until
          ORDER BY e.queue, e.ended_ms, e.pos FOR UPDATE;
        SELECT array_agg(o.seq) INTO v_seqs FROM (
            SELECT u.seq, e.ended_ms, row_number() OVER (ORDER BY e.ended_ms, u.seq) AS n
              FROM windlass.ended e CROSS JOIN unnest(e.seqs) AS u(seq)
             WHERE e.queue = v_queue AND e.ended_ms <= v_until) o
         WHERE o.n <= v_left AND (o.n <= v_surplus OR o.ended_ms <= p_now - v_retention);
        -- A retry may be giving one of them a new life: those are left alone.
        SELECT array_agg(l.seq) INTO v_seqs FROM (
            SELECT r.seq FROM windlass.runs r WHERE r.seq = ANY (v_seqs) AND r.state >= 2 FOR UPDATE SKIP LOCKED) l;
        IF v_seqs IS NOT NULL THEN
            PERFORM windlass.delete_1(v_seqs);
            UPDATE windlass.ended e SET seqs = k.seqs, jobs = cardinality(k.seqs)
              FROM (SELECT e.ended_ms, e.pos, ARRAY(SELECT u.seq FROM unnest(e.seqs) AS u(seq)
                           EXCEPT ALL SELECT d.seq FROM unnest(v_seqs) AS d(seq)) AS seqs
                      FROM windlass.ended e WHERE e.queue = v_queue AND e.ended_ms <= v_until) k
             WHERE e.queue = v_queue AND e.ended_ms = k.ended_ms AND e.pos = k.pos AND cardinality(k.seqs) < e.jobs;
            DELETE FROM windlass.ended e WHERE e.queue = v_queue AND e.ended_ms <= v_until AND e.jobs = 0;
            v_left := v_left - cardinality(v_seqs);
        END IF;
    END LOOP;
    RETURN p_max - v_left;
END $$;

-- Deletes remembered requests, silent workers, old events, and keys of no job, and
-- adds up what is counted.
CREATE FUNCTION windlass.prune_rest_1(p_now bigint, p_claim_ms bigint, p_worker_ms bigint, p_events bigint)
RETURNS void LANGUAGE plpgsql
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_queues text[];
    v_keys text[];
BEGIN
    -- A request is forgotten, not what it was given.
    DELETE FROM windlass.requests WHERE at_ms <= p_now - p_claim_ms;
    DELETE FROM windlass.workers WHERE seen_ms <= p_now - p_worker_ms;
    PERFORM windlass.prune_events_1(p_events);
    DELETE FROM windlass.long_leases WHERE until_ms < p_now;
    DELETE FROM windlass.recount WHERE due_ms <= p_now;
    IF FOUND THEN
        PERFORM windlass.recount_1();
    END IF;
    PERFORM windlass.fold_1(1);
    -- A key that is locked is in use. One that we hold cannot be added to.
    SELECT array_agg(k.queue), array_agg(k.key) INTO v_queues, v_keys FROM (
        SELECT k.queue, k.key FROM windlass.keys k
         WHERE k.holder IS NULL AND NOT windlass.queued_1(k.queue, k.key)
         LIMIT 10000 FOR UPDATE SKIP LOCKED) k;
    DELETE FROM windlass.keys k USING unnest(v_queues, v_keys) AS u(queue, key)
     WHERE k.queue = u.queue AND k.key = u.key AND k.holder IS NULL AND NOT windlass.queued_1(k.queue, k.key);
END $$;

-- Whether a key has due jobs.
CREATE FUNCTION windlass.queued_1(p_queue text, p_key text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM windlass.waiting w WHERE w.queue = p_queue AND w.key = p_key)
        OR EXISTS (SELECT FROM windlass.ready r WHERE r.key = p_key AND split_part(r.label, chr(31), 1) = p_queue)
$$;
