-- What workers write. Rows are locked in the order of their ids, everywhere.
-- What a row must be is given as columns of the sorted list, which the planner
-- cannot see through: a batch is looked up by its ids, however few jobs the
-- statistics say are running.

CREATE FUNCTION windlass.renew_1(p_now bigint, p_ids uuid[], p_fences bigint[])
RETURNS TABLE (id uuid, fence bigint, cancel_requested boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
BEGIN
    RETURN QUERY
    UPDATE windlass.jobs j SET expires_ms = windlass.moment_1(v_now + j.lease_ms)
      FROM (SELECT DISTINCT u.id, u.fence, 1 AS running, v_now AS now_ms
              FROM unnest(p_ids, p_fences) AS u(id, fence) ORDER BY u.id) l
     WHERE j.id = l.id AND j.state = l.running AND j.fence = l.fence AND j.expires_ms > l.now_ms
    RETURNING j.id, j.fence, j.cancel_requested;
END $$;

CREATE FUNCTION windlass.progress_1(p_now bigint, p_ids uuid[], p_fences bigint[], p_progress text[])
RETURNS TABLE (id uuid, fence bigint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
BEGIN
    RETURN QUERY
    UPDATE windlass.jobs j SET progress = l.progress
      FROM (SELECT DISTINCT ON (u.id, u.fence) u.id, u.fence, u.progress, 1 AS running, v_now AS now_ms
              FROM unnest(p_ids, p_fences, p_progress) WITH ORDINALITY AS u(id, fence, progress, ord)
             ORDER BY u.id, u.fence, u.ord DESC) l
     WHERE j.id = l.id AND j.state = l.running AND j.fence = l.fence AND j.expires_ms > l.now_ms
    RETURNING j.id, j.fence;
END $$;

-- Stores outputs of steps; answers in the order asked: 0 stored or kept, 1 lost, 2 too many.
CREATE FUNCTION windlass.store_steps_1(
    p_now bigint, p_max integer, p_ids uuid[], p_fences bigint[], p_names text[], p_outputs text[])
RETURNS TABLE (written smallint) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET jit = off AS $$
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_job record;
    r record;
BEGIN
    PERFORM FROM windlass.jobs j WHERE j.id = ANY (p_ids) ORDER BY j.id FOR UPDATE;
    FOR r IN SELECT u.id, u.fence, u.name, u.output FROM unnest(p_ids, p_fences, p_names, p_outputs)
             WITH ORDINALITY AS u(id, fence, name, output, ord) ORDER BY u.ord
    LOOP
        SELECT j.seq, j.steps_count, j.attempt INTO v_job FROM windlass.jobs j
         WHERE j.id = r.id AND j.state = 1 AND j.fence = r.fence AND j.expires_ms > v_now;
        IF NOT FOUND THEN
            written := 1;
        ELSIF EXISTS (SELECT FROM windlass.steps s WHERE s.job_seq = v_job.seq AND s.name = r.name) THEN
            written := 0;
        ELSIF v_job.steps_count >= p_max THEN
            written := 2;
        ELSE
            INSERT INTO windlass.steps (job_seq, ordinal, name, output, attempt, stored_ms)
            VALUES (v_job.seq, v_job.steps_count, r.name, r.output, v_job.attempt, v_now);
            UPDATE windlass.jobs SET steps_count = steps_count + 1, crashes = 0 WHERE seq = v_job.seq;
            written := 0;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Completes jobs. Answers with how many of them were running with the fence named
-- and, unless that were all, with which. Events are written here when p_note says
-- so, and by the caller otherwise, who is then always told which.
CREATE FUNCTION windlass.complete_1(p_now bigint, p_ids uuid[], p_fences bigint[], p_results text[], p_note boolean)
RETURNS TABLE (done bigint, ids uuid[], queues text[], freed boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_keyed boolean := false;
    v_ids uuid[] := '{}';
    v_queues text[] := '{}';
    v_seqs bigint[] := '{}';
    v_ords bigint[] := '{}';
    v_freed boolean := false;
    v_key_queues text[];
    v_keys text[];
    v_held bigint[];
    v_doomed text[];
    v_of text[];
    r record;
BEGIN
    LOOP
        WITH done AS (
            UPDATE windlass.jobs j
               SET state = 2, ended_ms = v_now, result = l.result, lease_ms = NULL, expires_ms = NULL,
                   cancel_requested = false, dedupe_held = NULL
              FROM (SELECT u.id, u.fence, u.result, u.ord, 1 AS running, v_now AS now_ms, v_keyed AS keyed
                      FROM unnest(p_ids, p_fences, p_results) WITH ORDINALITY AS u(id, fence, result, ord)
                     ORDER BY u.id) l
             WHERE j.id = l.id AND j.state = l.running AND j.fence = l.fence AND j.expires_ms > l.now_ms
               AND (j.key IS NOT NULL) = l.keyed
            RETURNING j.id, j.seq, j.queue, j.key, j.budgets, l.ord
        )
        SELECT array_agg(d.id) AS ids, array_agg(d.queue) AS queues, array_agg(d.seq) AS seqs,
               array_agg(d.ord) AS ords, array_agg(d.key) AS keys,
               string_agg(array_to_string(d.budgets, chr(31)), chr(31)) AS spends INTO r FROM done d;
        IF r.ids IS NOT NULL THEN
            v_ids := v_ids || r.ids;
            v_queues := v_queues || r.queues;
            v_seqs := v_seqs || r.seqs;
            v_ords := v_ords || r.ords;
            IF r.spends IS NOT NULL THEN
                INSERT INTO windlass.tally (what, name, delta)
                SELECT 1, b.name, -count(*) FROM unnest(string_to_array(r.spends, chr(31))) AS b(name) GROUP BY b.name;
                v_freed := true;
            END IF;
        END IF;
        EXIT WHEN v_keyed OR cardinality(v_ids) = cardinality(p_ids);
        -- What is left is lost, or has a key, which must be locked before its job, and
        -- is let go with it.
        WITH freed AS (
            UPDATE windlass.keys k SET holder = NULL
              FROM (SELECT j.queue, j.key, j.seq FROM unnest(p_ids, p_fences) AS u(id, fence)
                      JOIN windlass.jobs j ON j.id = u.id AND j.fence = u.fence
                     WHERE j.key IS NOT NULL AND j.expires_ms > v_now ORDER BY j.queue, j.key) u
             WHERE k.queue = u.queue AND k.key = u.key AND k.holder = u.seq
            RETURNING k.queue, k.key, u.seq
        )
        SELECT array_agg(f.queue), array_agg(f.key), array_agg(f.seq) INTO v_key_queues, v_keys, v_held FROM freed f;
        EXIT WHEN v_keys IS NULL;
        v_keyed := true;
    END LOOP;
    IF v_keyed THEN
        IF coalesce(cardinality(r.seqs), 0) <> cardinality(v_held) THEN
            -- Somebody was faster, and has given a job to somebody else meanwhile.
            UPDATE windlass.keys k SET holder = u.seq
              FROM unnest(v_key_queues, v_keys, v_held) AS u(queue, key, seq) JOIN windlass.jobs j ON j.seq = u.seq
             WHERE k.queue = u.queue AND k.key = u.key AND j.state = 1;
        END IF;
        IF r.keys IS NOT NULL THEN
            v_freed := windlass.expose_1(r.queues, r.keys, true) OR v_freed;
        END IF;
    END IF;
    IF v_ids = '{}' THEN
        RETURN QUERY SELECT 0::bigint, v_ids, v_queues, false;
        RETURN;
    END IF;
    v_of := ARRAY(SELECT DISTINCT u.queue FROM unnest(v_queues) AS u(queue));
    SELECT array_agg(q.name) FILTER (WHERE q.delete_finished), v_freed OR coalesce(bool_or(q.limit_jobs IS NOT NULL), false)
      INTO v_doomed, v_freed FROM windlass.queues q WHERE q.name = ANY (v_of) AND (q.delete_finished OR q.limit_jobs IS NOT NULL);
    IF cardinality(v_of) = 1 THEN
        INSERT INTO windlass.tally (what, name, delta) VALUES (0, v_of[1], -cardinality(v_ids));
        IF v_doomed IS NULL THEN
            INSERT INTO windlass.ended (queue, ended_ms, jobs, seqs) VALUES (v_of[1], v_now, cardinality(v_seqs), v_seqs);
        END IF;
    ELSE
        INSERT INTO windlass.tally (what, name, delta)
        SELECT 0, u.queue, -count(*) FROM unnest(v_queues) AS u(queue) GROUP BY u.queue;
        INSERT INTO windlass.ended (queue, ended_ms, jobs, seqs)
        SELECT u.queue, v_now, count(*), array_agg(u.seq) FROM unnest(v_queues, v_seqs) AS u(queue, seq)
         WHERE v_doomed IS NULL OR u.queue <> ALL (v_doomed) GROUP BY u.queue;
    END IF;
    IF p_note THEN
        IF cardinality(v_ids) = cardinality(p_ids) AND cardinality(v_of) = 1 THEN
            INSERT INTO windlass.events (at_ms, what, queue, jobs) VALUES (v_now, 2, v_of[1], p_ids);
        ELSE
            PERFORM windlass.note_1(v_now, 2, array_agg(u.queue ORDER BY u.ord), array_agg(u.id ORDER BY u.ord))
               FROM unnest(v_ids, v_queues, v_ords) AS u(id, queue, ord);
        END IF;
    END IF;
    IF v_doomed IS NOT NULL THEN
        PERFORM windlass.delete_1(array_agg(u.seq))
           FROM unnest(v_seqs, v_queues) AS u(seq, queue) WHERE u.queue = ANY (v_doomed);
    END IF;
    IF p_note AND cardinality(v_ids) = cardinality(p_ids) THEN
        RETURN QUERY SELECT cardinality(v_ids)::bigint, NULL::uuid[], NULL::text[], v_freed;
    ELSE
        RETURN QUERY SELECT cardinality(v_ids)::bigint, v_ids, v_queues, v_freed;
    END IF;
END $$;

-- Deletes jobs with their steps.
CREATE FUNCTION windlass.delete_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET jit = off AS $$
BEGIN
    DELETE FROM windlass.steps s USING windlass.jobs j
     WHERE j.seq = ANY (p_seqs) AND j.steps_count > 0 AND s.job_seq = j.seq;
    DELETE FROM windlass.jobs j WHERE j.seq = ANY (p_seqs);
END $$;
