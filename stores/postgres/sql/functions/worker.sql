-- What workers write. Rows are locked in the order of their numbers, everywhere.
-- What a row must be is given as columns of the sorted list, which the planner
-- cannot see through: a batch is looked up by its numbers, however few jobs the
-- statistics say are running.

-- The claims that may hold these jobs open: those whose numbers lie around one of
-- them that has no row of its own. Costs what it is asked for, however many claims
-- are open.
CREATE FUNCTION windlass.around_1(p_seqs bigint[]) RETURNS bigint[] LANGUAGE plpgsql STABLE
{planned} AS $$
BEGIN
    RETURN (SELECT array_agg(DISTINCT c.number)
              FROM unnest(p_seqs) AS u(seq)
              JOIN windlass.claims c ON int8range(c.low, c.high, '[]') @> u.seq AND c.due_ms IS NOT NULL
             WHERE c.open > 0 AND NOT EXISTS (SELECT FROM windlass.runs r WHERE r.seq = u.seq));
END $$;

-- Gives rows of their own to those of these jobs of which only a claim knows.
-- After it, each of them that is there and runs has one, and the claims are held.
-- A job that is gone gets none, although its claim may still name it.
CREATE FUNCTION windlass.unpack_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET jit = off AS $$
DECLARE
    v_numbers bigint[] := windlass.around_1(p_seqs);
BEGIN
    IF v_numbers IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM windlass.claims c WHERE c.number = ANY (v_numbers) ORDER BY c.number FOR UPDATE;
    WITH open AS MATERIALIZED (
        SELECT c.number, u.seq FROM windlass.claims c CROSS JOIN unnest(c.seqs) AS o(seq)
          JOIN (SELECT DISTINCT u.seq FROM unnest(p_seqs) AS u(seq)) u ON u.seq = o.seq
         WHERE c.number = ANY (v_numbers) AND c.open > 0
    ), begun AS MATERIALIZED (
        SELECT o.number, j.seq, j.key FROM open o CROSS JOIN LATERAL (
            SELECT j.seq, j.key FROM windlass.jobs j WHERE j.seq = o.seq LIMIT 1) j
         WHERE (SELECT r.seq FROM windlass.runs r WHERE r.seq = o.seq LIMIT 1) IS NULL
    ), counted AS (
        UPDATE windlass.claims c SET open = c.open - b.jobs, whole = false
          FROM (SELECT b.number, count(*) AS jobs FROM begun b GROUP BY b.number) b
         WHERE c.number = b.number
    )
    INSERT INTO windlass.runs (seq, fence, started_ms, lease_ms, expires_ms, attempt, state, deduped, label, key, worker)
    SELECT b.seq, c.fence, c.started_ms, c.lease_ms, c.due_ms, 1, 1, false, c.label, b.key, c.worker
      FROM begun b JOIN windlass.claims c ON c.number = b.number ORDER BY b.seq;
END $$;

-- The numbers of these jobs as they are stored, in their order, nothing for one
-- that is not there; each that runs has a row of its own after it.
CREATE FUNCTION windlass.unpacked_1(p_ids uuid[]) RETURNS bigint[] LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_seqs bigint[];
BEGIN
    SELECT array_agg(j.seq ORDER BY u.ord) INTO v_seqs
      FROM unnest(p_ids) WITH ORDINALITY AS u(id, ord) LEFT JOIN windlass.jobs j ON j.id = u.id;
    PERFORM windlass.unpack_1(v_seqs);
    RETURN v_seqs;
END $$;

-- Renews leases. Answers first with the instance of the store, also when all are lost; beside those that it renewed for
-- how long each stands still if it stood still before (windlass_core::epoch).
CREATE FUNCTION windlass.renew_1(p_now bigint, p_ids uuid[], p_fences bigint[])
RETURNS TABLE (id uuid, fence bigint, cancel_requested boolean, still_ms bigint, instance uuid) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_epoch windlass.epoch;
BEGIN
    PERFORM windlass.unpacked_1(p_ids);
    -- Claims may have been waited for, and somebody may have renewed the lease meanwhile.
    v_now := windlass.begin_1(p_now);
    v_epoch := windlass.pausing_1(v_now);
    RETURN QUERY SELECT NULL::uuid, NULL::bigint, NULL::boolean, NULL::bigint, e.instance FROM windlass.epoch e;
    RETURN QUERY
    UPDATE windlass.runs r SET expires_ms = greatest(r.expires_ms, windlass.moment_1(v_now + r.lease_ms)), marked_ms = NULL
      FROM (SELECT DISTINCT j.seq, u.id, u.fence, 1 AS running
              FROM unnest(p_ids, p_fences) AS u(id, fence) JOIN windlass.jobs j ON j.id = u.id ORDER BY j.seq) l
     WHERE r.seq = l.seq AND r.state = l.running AND r.fence = l.fence
    RETURNING l.id, r.fence, r.cancel_requested, CASE WHEN v_epoch.number IS NOT NULL THEN
              windlass.pause_until_1(v_epoch, split_part(r.label, chr(31), 1)) - v_now END, NULL::uuid;
END $$;

CREATE FUNCTION windlass.progress_1(p_now bigint, p_ids uuid[], p_fences bigint[], p_progress text[])
RETURNS TABLE (id uuid, fence bigint) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
BEGIN
    PERFORM windlass.unpacked_1(p_ids);
    RETURN QUERY
    UPDATE windlass.runs r SET progress = l.progress
      FROM (SELECT DISTINCT ON (j.seq, u.fence) j.seq, u.id, u.fence, u.progress, 1 AS running
              FROM unnest(p_ids, p_fences, p_progress) WITH ORDINALITY AS u(id, fence, progress, ord)
              JOIN windlass.jobs j ON j.id = u.id
             ORDER BY j.seq, u.fence, u.ord DESC) l
     WHERE r.seq = l.seq AND r.state = l.running AND r.fence = l.fence
    RETURNING l.id, r.fence;
END $$;

-- Stores outputs of steps; answers in the order asked: 0 stored or kept, 1 lost, 2 too many.
CREATE FUNCTION windlass.store_steps_1(
    p_now bigint, p_max integer, p_ids uuid[], p_fences bigint[], p_names text[], p_outputs text[])
RETURNS TABLE (written smallint) LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_job record;
    r record;
BEGIN
    PERFORM windlass.unpacked_1(p_ids);
    PERFORM FROM windlass.jobs j JOIN windlass.runs n ON n.seq = j.seq
      WHERE j.id = ANY (p_ids) ORDER BY n.seq FOR UPDATE OF n;
    FOR r IN SELECT u.id, u.fence, u.name, u.output FROM unnest(p_ids, p_fences, p_names, p_outputs)
             WITH ORDINALITY AS u(id, fence, name, output, ord) ORDER BY u.ord
    LOOP
        SELECT n.seq, n.steps_count, n.attempt INTO v_job FROM windlass.jobs j JOIN windlass.runs n ON n.seq = j.seq
         WHERE j.id = r.id AND n.state = 1 AND n.fence = r.fence;
        IF NOT FOUND THEN
            written := 1;
        ELSIF EXISTS (SELECT FROM windlass.steps s WHERE s.job_seq = v_job.seq AND s.name = r.name) THEN
            written := 0;
        ELSIF v_job.steps_count >= p_max THEN
            written := 2;
        ELSE
            INSERT INTO windlass.steps (job_seq, ordinal, name, output, attempt, stored_ms)
            VALUES (v_job.seq, v_job.steps_count, r.name, r.output, v_job.attempt, v_now);
            UPDATE windlass.runs SET steps_count = steps_count + 1, crashes = 0 WHERE seq = v_job.seq;
            written := 0;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- How many of these different jobs are there. Numbers that follow each other, as
-- those of a claim mostly do, are counted as one range, at a tenth of the cost.
CREATE FUNCTION windlass.there_1(p_seqs bigint[]) RETURNS bigint LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_low bigint;
    v_high bigint;
BEGIN
    SELECT min(u.seq), max(u.seq) INTO v_low, v_high FROM unnest(p_seqs) AS u(seq);
    IF v_high - v_low + 1 = cardinality(p_seqs) THEN
        RETURN (SELECT count(*) FROM windlass.jobs j WHERE j.seq BETWEEN v_low AND v_high);
    END IF;
    RETURN (SELECT count(*) FROM windlass.jobs j WHERE j.seq = ANY (p_seqs));
END $$;

-- Completes those of these jobs that only their claims know of, all of them or,
-- with an error, none: the row that says that a job has ended is the first that is
-- written for it. What the caller remembers is a hint: the claim must be there with
-- open leases, the fence must be that of the claim (whose number may be given
-- twice by a promotion that lost commits), no row may say already what became of the
-- job, and the job must be there. (Which number an id has, and which claim, is not
-- looked up: that they belong together is believed.) Whoever does anything else with
-- an open lease holds its claim, so that what is found here stays so.
--
-- Answers with the numbers of the jobs and what their gates stand for; with one
-- label for all, and no places among those asked for, when all are of one claim.
-- Mirrors transition::settle for Outcome::Completed.
CREATE FUNCTION windlass.complete_open_1(
    p_now bigint, p_ids uuid[], p_seqs bigint[], p_fences bigint[], p_results text[], p_packs bigint[], p_of integer[])
RETURNS TABLE (seqs bigint[], ords bigint[], labels text[], freed boolean) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_started bigint[];
    v_opened bigint[];
    v_workers text[];
    v_of text[];
    v_key_queues text[];
    v_keys text[];
    v_soles bigint[];
    v_rows bigint;
BEGIN
    freed := false;
    SELECT array_agg(c.started_ms ORDER BY c.ord), array_agg(c.worker ORDER BY c.ord), array_agg(c.label ORDER BY c.ord),
           array_agg(c.fence ORDER BY c.ord)
      INTO v_started, v_workers, v_of, v_opened
      FROM (SELECT u.ord, c.started_ms, c.worker, c.label, c.fence
              FROM unnest(p_packs) WITH ORDINALITY AS u(number, ord) JOIN windlass.claims c ON c.number = u.number
             WHERE c.due_ms IS NOT NULL ORDER BY c.number FOR UPDATE OF c) c;
    IF cardinality(v_started) IS DISTINCT FROM cardinality(p_packs) THEN
        RAISE EXCEPTION 'a claim is not open' USING ERRCODE = 'WL002';
    END IF;
    IF EXISTS (SELECT FROM unnest(v_of) AS l(label) WHERE split_part(l.label, chr(31), 3) = 'k') THEN
        -- A key must be locked before its job, and is let go with it.
        WITH freed AS (
            UPDATE windlass.keys k SET holder = NULL
              FROM (SELECT j.queue, j.key, u.seq FROM unnest(p_seqs, p_of) AS u(seq, of) JOIN windlass.jobs j ON j.seq = u.seq
                     WHERE j.key IS NOT NULL AND u.of IS DISTINCT FROM 0 ORDER BY 1, 2) u
             WHERE k.queue = u.queue AND k.key = u.key AND k.holder = u.seq
            RETURNING k.queue, k.key, k.gate
        )
        SELECT array_agg(f.queue), array_agg(f.key), array_agg(f.gate) INTO v_key_queues, v_keys, v_soles FROM freed f;
    END IF;
    IF p_of IS NULL THEN
        INSERT INTO windlass.runs (seq, fence, started_ms, ended_ms, attempt, state, deduped, worker, result)
        SELECT u.seq, v_opened[1], v_started[1], p_now, 1, 2, false, v_workers[1], u.result
          FROM unnest(p_seqs, p_results) AS u(seq, result);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        UPDATE windlass.claims c
           SET open = c.open - v_rows, due_ms = CASE WHEN c.open > v_rows OR NOT c.whole THEN c.due_ms END
         WHERE c.number = p_packs[1];
        seqs := p_seqs;
        labels := v_of;
    ELSE
        INSERT INTO windlass.runs (seq, fence, started_ms, ended_ms, attempt, state, deduped, worker, result)
        SELECT u.seq, v_opened[u.of], v_started[u.of], p_now, 1, 2, false, v_workers[u.of], u.result
          FROM unnest(p_seqs, p_of, p_results) AS u(seq, of, result) WHERE u.of > 0;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        UPDATE windlass.claims c
           SET open = c.open - u.jobs, due_ms = CASE WHEN c.open > u.jobs OR NOT c.whole THEN c.due_ms END
          FROM (SELECT p_packs[u.of] AS number, count(*) AS jobs FROM unnest(p_of) AS u(of) WHERE u.of > 0 GROUP BY u.of) u
         WHERE c.number = u.number;
        SELECT array_agg(u.seq), array_agg(u.ord), array_agg(v_of[u.of]) INTO seqs, ords, labels
          FROM unnest(p_seqs, p_of) WITH ORDINALITY AS u(seq, of, ord) WHERE u.of > 0;
    END IF;
    -- Asked after the rows were written: a job that went while they were is not found any more.
    IF windlass.there_1(coalesce(seqs, '{}')) <> v_rows
       OR EXISTS (SELECT FROM unnest(p_fences, p_of) AS u(fence, of)
                   WHERE u.of IS DISTINCT FROM 0 AND u.fence <> v_opened[coalesce(u.of, 1)]) THEN
        RAISE EXCEPTION 'a lease is not open' USING ERRCODE = 'WL002';
    END IF;
    IF v_keys IS NOT NULL THEN
        freed := windlass.expose_1(v_key_queues, v_keys, true, v_soles);
    END IF;
    RETURN NEXT;
END $$;

-- Completes jobs. Answers with how many of them were running with the fence named
-- and, unless that were all, with which. Events are written here when p_note says
-- so, and by the caller otherwise, who is then always told which. Who knows the
-- numbers of the jobs names them, and says which of them only their claims know of
-- (p_of: which of p_packs, or 0; nothing when all are of the first).
-- Who knows that they have keys says so and spares looking for those that have none.
CREATE FUNCTION windlass.complete_1(
    p_now bigint, p_ids uuid[], p_seqs bigint[], p_fences bigint[], p_results text[], p_keyed boolean, p_note boolean,
    p_packs bigint[], p_of integer[])
RETURNS TABLE (done bigint, ids uuid[], queues text[], freed boolean) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_all bigint[] := p_seqs;
    v_stored boolean := p_seqs IS NULL;
    v_keyed boolean := p_keyed;
    v_seqs bigint[] := '{}';
    v_ords bigint[] := '{}';
    v_labels text[] := '{}';
    v_deduped boolean := false;
    v_freed boolean := false;
    v_key_queues text[];
    v_keys text[];
    v_held bigint[];
    v_of text[];
    v_queue text;
    v_jobs bigint[];
    v_doomed text[];
    r record;
BEGIN
    IF p_packs IS NOT NULL AND NOT v_stored THEN
        BEGIN
            -- Nothing is assigned unless all of it succeeds.
            SELECT * INTO STRICT r FROM windlass.complete_open_1(v_now, p_ids, p_seqs, p_fences, p_results, p_packs, p_of);
            v_seqs := r.seqs;
            v_freed := r.freed;
            IF r.ords IS NULL THEN
                v_of := r.labels;
                v_jobs := ARRAY[cardinality(v_seqs)];
            ELSE
                v_ords := r.ords;
                v_labels := r.labels;
                v_all := ARRAY(SELECT CASE WHEN u.of = 0 THEN u.seq END
                                 FROM unnest(p_seqs, p_of) WITH ORDINALITY AS u(seq, of, ord) ORDER BY u.ord);
            END IF;
        EXCEPTION WHEN unique_violation OR check_violation OR SQLSTATE 'WL002' THEN
            -- Something has happened that this program does not know of.
            v_stored := true;
        END;
    END IF;
    IF v_stored THEN
        v_all := windlass.unpacked_1(p_ids);
    END IF;
    FOR pass IN 1 .. 4 LOOP
        EXIT WHEN cardinality(v_seqs) = cardinality(p_ids) OR pass = 3 AND v_stored;
        IF pass = 3 THEN
            -- Or its worker remembers something else of it than what is stored.
            v_all := windlass.unpacked_1(p_ids);
        END IF;
        v_held := NULL;
        IF v_keyed THEN
            -- A key must be locked before its job, and is let go with it.
            WITH freed AS (
                UPDATE windlass.keys k SET holder = NULL
                  FROM (SELECT split_part(r.label, chr(31), 1) AS queue, r.key, r.seq
                          FROM unnest(v_all, p_fences) AS u(seq, fence)
                          JOIN windlass.runs r ON r.seq = u.seq AND r.fence = u.fence
                         WHERE r.key IS NOT NULL AND r.state = 1 ORDER BY 1, 2) u
                 WHERE k.queue = u.queue AND k.key = u.key AND k.holder = u.seq
                RETURNING k.queue, k.key, u.seq
            )
            SELECT array_agg(f.queue), array_agg(f.key), array_agg(f.seq) INTO v_key_queues, v_keys, v_held FROM freed f;
        END IF;
        IF NOT v_keyed OR v_held IS NOT NULL THEN
            WITH done AS (
                UPDATE windlass.runs r
                   SET state = 2, ended_ms = v_now, result = l.result, lease_ms = NULL, expires_ms = NULL, marked_ms = NULL,
                       cancel_requested = false
                  FROM (SELECT u.seq, u.fence, u.result, u.ord, 1 AS running, v_keyed AS keyed
                          FROM unnest(v_all, p_fences, p_results) WITH ORDINALITY AS u(seq, fence, result, ord)
                         ORDER BY u.seq) l
                 WHERE r.seq = l.seq AND r.state = l.running AND r.fence = l.fence
                   AND (r.key IS NOT NULL) = l.keyed
                RETURNING r.seq, l.ord, r.label, r.key, r.deduped
            )
            SELECT array_agg(d.seq) AS seqs, array_agg(d.ord) AS ords, array_agg(d.label) AS labels, bool_or(d.deduped) AS deduped,
                   array_agg(d.key) FILTER (WHERE d.key IS NOT NULL) AS keys
              INTO r FROM done d;
            IF r.seqs IS NOT NULL THEN
                v_seqs := v_seqs || r.seqs;
                v_ords := v_ords || r.ords;
                v_labels := v_labels || r.labels;
                v_deduped := v_deduped OR r.deduped;
            END IF;
            IF v_keyed AND coalesce(cardinality(r.seqs), 0) <> cardinality(v_held) THEN
                -- Somebody was faster, and has given a job to somebody else meanwhile.
                UPDATE windlass.keys k SET holder = u.seq
                  FROM unnest(v_key_queues, v_keys, v_held) AS u(queue, key, seq) JOIN windlass.runs n ON n.seq = u.seq
                 WHERE k.queue = u.queue AND k.key = u.key AND n.state = 1;
            END IF;
            IF r.keys IS NOT NULL THEN
                v_freed := windlass.expose_1(ARRAY(SELECT split_part(l.label, chr(31), 1) FROM unnest(r.labels) AS l(label)), r.keys, true, NULL)
                    OR v_freed;
            END IF;
        END IF;
        -- What is left is lost, or is of the other sort.
        v_keyed := NOT v_keyed;
    END LOOP;
    IF v_seqs = '{}' THEN
        RETURN QUERY SELECT 0::bigint, NULL::uuid[], NULL::text[], false;
        RETURN;
    END IF;
    IF v_deduped THEN
        UPDATE windlass.jobs j SET dedupe_held = NULL WHERE j.seq = ANY (v_seqs) AND j.dedupe_held IS NOT NULL;
    END IF;
    -- Nearly always all are of one gate.
    IF v_jobs IS NOT NULL THEN
        NULL;
    ELSIF array_remove(v_labels, v_labels[1]) = '{}' THEN
        v_of := v_labels[1:1];
        v_jobs := ARRAY[cardinality(v_labels)];
    ELSE
        SELECT array_agg(u.label), array_agg(u.jobs) INTO v_of, v_jobs
          FROM (SELECT u.label, count(*) AS jobs FROM unnest(v_labels) AS u(label) GROUP BY u.label) u;
    END IF;
    SELECT array_agg(q.name) FILTER (WHERE q.delete_finished), v_freed OR coalesce(bool_or(q.limit_jobs IS NOT NULL), false)
      INTO v_doomed, v_freed FROM windlass.queues q
     WHERE q.name IN (SELECT split_part(u.label, chr(31), 1) FROM unnest(v_of) AS u(label)) AND (q.delete_finished OR q.limit_jobs IS NOT NULL);
    IF p_note AND v_doomed IS NULL AND cardinality(v_of) = 1 AND cardinality(v_seqs) = cardinality(p_ids) THEN
        v_queue := split_part(v_of[1], chr(31), 1);
        WITH fewer AS (
            INSERT INTO windlass.tally (what, name, delta)
            SELECT 0, v_queue, -cardinality(v_seqs)
            UNION ALL
            SELECT 1, b.name, -cardinality(v_seqs) FROM unnest((string_to_array(v_of[1], chr(31)))[4:]) AS b(name) WHERE b.name <> ''
        ), kept AS (
            INSERT INTO windlass.ended (queue, ended_ms, jobs, seqs) VALUES (v_queue, v_now, cardinality(v_seqs), v_seqs)
        )
        INSERT INTO windlass.events (at_ms, what, queue, jobs) VALUES (v_now, 2, v_queue, p_ids);
        RETURN QUERY SELECT cardinality(v_seqs)::bigint, NULL::uuid[], NULL::text[], v_freed OR split_part(v_of[1], chr(31), 4) <> '';
        RETURN;
    END IF;
    IF v_labels = '{}' THEN
        v_labels := array_fill(v_of[1], ARRAY[cardinality(v_seqs)]);
        v_ords := ARRAY(SELECT generate_series(1, cardinality(v_seqs)));
    END IF;
    INSERT INTO windlass.tally (what, name, delta)
    SELECT 0, u.queue, -sum(u.jobs) FROM (
        SELECT split_part(u.label, chr(31), 1) AS queue, u.jobs FROM unnest(v_of, v_jobs) AS u(label, jobs)) u GROUP BY u.queue
    UNION ALL
    SELECT 1, u.name, -sum(u.jobs) FROM (
        SELECT b.name, u.jobs FROM unnest(v_of, v_jobs) AS u(label, jobs)
         CROSS JOIN unnest((string_to_array(u.label, chr(31)))[4:]) AS b(name) WHERE b.name <> '') u GROUP BY u.name;
    v_freed := v_freed OR EXISTS (SELECT FROM unnest(v_of) AS u(label) WHERE split_part(u.label, chr(31), 4) <> '');
    INSERT INTO windlass.ended (queue, ended_ms, jobs, seqs)
    SELECT u.queue, v_now, count(*), array_agg(u.seq)
      FROM (SELECT split_part(u.label, chr(31), 1) AS queue, u.seq FROM unnest(v_labels, v_seqs) AS u(label, seq)) u
     WHERE v_doomed IS NULL OR u.queue <> ALL (v_doomed) GROUP BY u.queue;
    IF p_note THEN
        PERFORM windlass.note_1(v_now, 2, array_agg(split_part(u.label, chr(31), 1) ORDER BY u.ord), array_agg(p_ids[u.ord] ORDER BY u.ord))
           FROM unnest(v_labels, v_ords) AS u(label, ord);
    END IF;
    IF v_doomed IS NOT NULL THEN
        PERFORM windlass.delete_1(array_agg(u.seq))
           FROM unnest(v_seqs, v_labels) AS u(seq, label) WHERE split_part(u.label, chr(31), 1) = ANY (v_doomed);
    END IF;
    IF p_note AND cardinality(v_seqs) = cardinality(p_ids) THEN
        RETURN QUERY SELECT cardinality(v_seqs)::bigint, NULL::uuid[], NULL::text[], v_freed;
    ELSE
        RETURN QUERY SELECT cardinality(v_seqs)::bigint, array_agg(p_ids[u.ord]), array_agg(split_part(u.label, chr(31), 1)), v_freed
          FROM unnest(v_labels, v_ords) AS u(label, ord);
    END IF;
END $$;

-- Deletes jobs with all that they have.
CREATE FUNCTION windlass.delete_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    DELETE FROM windlass.steps s USING windlass.runs r
     WHERE r.seq = ANY (p_seqs) AND r.steps_count > 0 AND s.job_seq = r.seq;
    DELETE FROM windlass.runs r WHERE r.seq = ANY (p_seqs);
    DELETE FROM windlass.jobs j WHERE j.seq = ANY (p_seqs);
END $$;
