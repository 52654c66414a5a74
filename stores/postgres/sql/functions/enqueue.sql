-- What was asked for, as the rows that would be stored, in the order asked (which
-- is how unnest gives them); with p_todo only those at these places. An array may
-- be left out when it would hold nothing. The label, and the rank without ageing,
-- are written out here: a function that is called for every row costs as much as
-- storing it.
CREATE FUNCTION windlass.asked_1(
    p_now bigint, p_ageing boolean, p_todo bigint[],
    p_ids uuid[], p_kinds text[], p_queues text[], p_payloads text[], p_priorities smallint[],
    p_keys text[], p_dedupe_keys text[], p_budgets text[], p_retries text[], p_timeouts bigint[], p_metas text[],
    p_run_at bigint[], p_delays bigint[])
RETURNS TABLE (
    id uuid, kind text, queue text, payload text, priority smallint, key text, dedupe_key text, budgets text[],
    retry text, timeout_ms bigint, meta text, rank bigint, run_at_ms bigint, ready boolean, label text)
LANGUAGE sql STABLE AS $$
    SELECT u.id, u.kind, u.queue, u.payload, u.priority, u.key, u.dedupe_key, string_to_array(u.budgets, chr(31)),
           u.retry, u.timeout_ms, u.meta,
           CASE WHEN p_ageing THEN
               windlass.rank_1(u.priority, (SELECT q.ageing_ms FROM windlass.queues q WHERE q.name = u.queue), p_now)
           ELSE -u.priority::bigint * 10000000000000 END,
           r.run_at_ms,
           r.run_at_ms <= p_now AND u.key IS NULL,
           u.queue || chr(31) || u.kind || chr(31) || CASE WHEN u.key IS NULL THEN '' ELSE 'k' END || chr(31)
               || coalesce(u.budgets, '')
      FROM unnest(p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_keys, p_dedupe_keys, p_budgets,
                  p_retries, p_timeouts, p_metas, p_run_at, p_delays)
           WITH ORDINALITY AS u(id, kind, queue, payload, priority, key, dedupe_key, budgets,
                  retry, timeout_ms, meta, run_at, delay, ord)
     CROSS JOIN LATERAL (
           SELECT windlass.moment_1(coalesce(u.run_at, p_now + coalesce(u.delay, 0))) AS run_at_ms) r
     WHERE p_todo IS NULL OR u.ord = ANY (p_todo)
$$;

-- Writes down that jobs were accepted: what is counted, and what is told. One queue stands for all when they are fewer.
-- Before: the jobs are new in this transaction. Mirrors: Book::enqueue (the event). Test: conformance (queues, events).
CREATE FUNCTION windlass.accepted_1(p_now bigint, p_queues text[], p_ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF array_remove(p_queues, p_queues[1]) = '{}' THEN
        WITH counted AS (
            INSERT INTO windlass.tally (what, name, delta, queued) VALUES (0, p_queues[1], 0, cardinality(p_ids))
        )
        INSERT INTO windlass.events (at_ms, what, queue, jobs) VALUES (p_now, 0, p_queues[1], p_ids);
    ELSE
        INSERT INTO windlass.tally (what, name, delta, queued)
        SELECT 0, u.queue, 0, count(*) FROM unnest(p_queues) AS u(queue) GROUP BY u.queue;
        PERFORM windlass.note_1(p_now, 0, p_queues, p_ids);
    END IF;
END $$;

-- Accepts jobs that differ in id and payload only and are due now, and answers whether it did: when an id is there
-- already, nothing is changed. A row of "ready" has numbers that follow each other. Plans as its caller says.
-- Mirrors: transition::accept. Test: conformance (alike jobs), rows_of_calls_at_the_same_time_stand_behind_each_other.
CREATE FUNCTION windlass.enqueue_alike_1(
    p_now bigint, p_ageing boolean, p_ids uuid[], p_kind text, p_queue text, p_payloads text[], p_priority smallint,
    p_budgets text, p_retry text, p_timeout_ms bigint, p_meta text, p_seed bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_label text := p_queue || chr(31) || p_kind || chr(31) || chr(31) || coalesce(p_budgets, '');
    v_gate bigint := hashtextextended(CASE WHEN p_budgets IS NULL THEN v_label ELSE windlass.gate_label_1(v_label) END,
                                      p_seed);
    v_rank bigint := windlass.rank_1(p_priority, CASE WHEN p_ageing THEN
        (SELECT q.ageing_ms FROM windlass.queues q WHERE q.name = p_queue) END, p_now);
    v_seqs bigint[] := ARRAY(SELECT nextval('windlass.job_seq') FROM generate_series(1, cardinality(p_ids)));
BEGIN
    INSERT INTO windlass.jobs (seq, id, kind, queue, payload, priority, budgets, retry, timeout_ms, meta, rank,
                               created_ms, run_at_ms, gate)
    SELECT u.seq, u.id, p_kind, p_queue, u.payload, p_priority, string_to_array(p_budgets, chr(31)), p_retry,
           p_timeout_ms, p_meta, v_rank, p_now, p_now, v_gate
      FROM (SELECT unnest(v_seqs) AS seq, unnest(p_ids) AS id, unnest(p_payloads) AS payload) u;
    IF v_seqs[cardinality(p_ids)] - v_seqs[1] = cardinality(p_ids) - 1 THEN
        INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, more_seqs, more_ids)
        SELECT v_gate, v_rank, v_seqs[at], p_ids[at], 1, p_now, false, false, v_label,
               nullif(v_seqs[at + 1:at + 63], '{}'), nullif(p_ids[at + 1:at + 63], '{}')
          FROM generate_series(1, cardinality(p_ids), 64) AS at;
    ELSE
        -- Others took numbers at the same time: rows must not reach over theirs.
        INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, more_seqs, more_ids)
        SELECT v_gate, v_rank, r.seqs[1], r.ids[1], 1, p_now, false, false, v_label,
               nullif(r.seqs[2:], '{}'), nullif(r.ids[2:], '{}')
          FROM (SELECT array_agg(u.seq ORDER BY u.ord) AS seqs, array_agg(u.id ORDER BY u.ord) AS ids
                  FROM unnest(v_seqs, p_ids) WITH ORDINALITY AS u(seq, id, ord)
                 GROUP BY u.seq - u.ord, u.seq / 64) r;
    END IF;
    PERFORM windlass.accepted_1(p_now, ARRAY[p_queue], p_ids);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RETURN false;
END $$;

-- Accepts jobs when all of them are new, and answers whether they were; otherwise nothing is changed. A plain insert
-- costs half of one that is prepared for conflicts. Those without a key that are due are ready afterwards; with
-- p_sharing, those of one gate and rank differ in nothing that a row of "ready" says, and share rows: otherwise another
-- could stand between them. Plans as its caller says. Mirrors: transition::accept. Test: conformance (enqueue).
CREATE FUNCTION windlass.enqueue_new_1(
    p_now bigint, p_epoch windlass.epoch, p_ageing boolean, p_sharing boolean,
    p_ids uuid[], p_kinds text[], p_queues text[], p_payloads text[], p_priorities smallint[],
    p_keys text[], p_dedupe_keys text[], p_budgets text[], p_retries text[], p_timeouts bigint[], p_metas text[],
    p_run_at bigint[], p_delays bigint[])
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT nextval('windlass.job_seq') AS seq, a.*,
               hashtextextended(CASE WHEN a.budgets IS NULL THEN a.label ELSE windlass.gate_label_1(a.label) END,
                   CASE WHEN p_epoch.number IS NULL THEN 0
                        ELSE windlass.seed_2(p_epoch, p_now, a.id, a.key, a.dedupe_key) END) AS gate
          FROM windlass.asked_1(
               p_now, p_ageing, NULL, p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_keys, p_dedupe_keys,
               p_budgets, p_retries, p_timeouts, p_metas, p_run_at, p_delays) a
    ), added AS (
        INSERT INTO windlass.jobs (seq, id, kind, queue, payload, priority, key, dedupe_key, dedupe_held, budgets,
                                   retry, timeout_ms, meta, rank, created_ms, run_at_ms, gate)
        SELECT a.seq, a.id, a.kind, a.queue, a.payload, a.priority, a.key, a.dedupe_key, a.dedupe_key, a.budgets,
               a.retry, a.timeout_ms, a.meta, a.rank, p_now, a.run_at_ms, a.gate FROM asked a
    )
    INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, more_seqs, more_ids)
    SELECT r.gate, r.rank, r.seqs[1], r.ids[1], 1, r.run_at_ms, false, r.deduped, r.label,
           nullif(r.seqs[2:], '{}'), nullif(r.ids[2:], '{}')
      FROM (SELECT a.gate, a.rank, a.run_at_ms, a.dedupe_key IS NOT NULL AS deduped, a.label,
                   array_agg(a.seq) AS seqs, array_agg(a.id) AS ids
              -- Others may have taken numbers in between: rows must not reach over theirs.
              FROM (SELECT a.*, a.seq - row_number() OVER () AS apart FROM asked a) a WHERE a.ready
             -- What has budgets stands at a gate with others of other budgets, which may have numbers in between.
             GROUP BY CASE WHEN p_sharing AND a.budgets IS NULL THEN a.seq / 64 ELSE a.seq END, a.apart, a.gate,
                      a.rank, a.run_at_ms, a.dedupe_key IS NOT NULL, a.label) r;
    PERFORM windlass.accepted_1(p_now, p_queues, p_ids);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RETURN false;
END $$;

-- Accepts those of these jobs that are new, and answers with their ids. Others may be there, or hold a dedupe key, when
-- it is tried, and be gone when that is looked at: so it is tried again. Those without a key that are due are ready
-- afterwards. Plans as its caller says. Mirrors: transition::accept. Test: conformance (repeats, dedupe keys).
CREATE FUNCTION windlass.enqueue_some_1(
    p_now bigint, p_epoch windlass.epoch, p_ageing boolean,
    p_ids uuid[], p_kinds text[], p_queues text[], p_payloads text[], p_priorities smallint[],
    p_keys text[], p_dedupe_keys text[], p_budgets text[], p_retries text[], p_timeouts bigint[], p_metas text[],
    p_run_at bigint[], p_delays bigint[])
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    v_todo bigint[];
    v_added uuid[];
    v_of text[];
    v_new uuid[] := '{}';
BEGIN
    FOR round IN 1 .. 100 LOOP
        WITH asked AS MATERIALIZED (
            SELECT nextval('windlass.job_seq') AS seq, a.*,
                   hashtextextended(CASE WHEN a.budgets IS NULL THEN a.label ELSE windlass.gate_label_1(a.label) END,
                       CASE WHEN p_epoch.number IS NULL THEN 0
                            ELSE windlass.seed_2(p_epoch, p_now, a.id, a.key, a.dedupe_key) END) AS gate
              FROM windlass.asked_1(
                   p_now, p_ageing, v_todo, p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_keys, p_dedupe_keys,
                   p_budgets, p_retries, p_timeouts, p_metas, p_run_at, p_delays) a
        ), added AS (
            INSERT INTO windlass.jobs (seq, id, kind, queue, payload, priority, key, dedupe_key, dedupe_held, budgets,
                                       retry, timeout_ms, meta, rank, created_ms, run_at_ms, gate)
            SELECT a.seq, a.id, a.kind, a.queue, a.payload, a.priority, a.key, a.dedupe_key, a.dedupe_key, a.budgets,
                   a.retry, a.timeout_ms, a.meta, a.rank, p_now, a.run_at_ms, a.gate FROM asked a
            ON CONFLICT DO NOTHING
            RETURNING jobs.seq
        ), fresh AS MATERIALIZED (
            SELECT a.* FROM added d JOIN asked a ON a.seq = d.seq
        ), to_ready AS (
            INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
            SELECT a.gate, a.rank, a.seq, a.id, 1, a.run_at_ms, false, a.dedupe_key IS NOT NULL, a.label
              FROM fresh a WHERE a.ready
        )
        SELECT array_agg(a.id ORDER BY a.seq), array_agg(a.queue ORDER BY a.seq) INTO v_added, v_of FROM fresh a;
        IF v_added IS NOT NULL THEN
            PERFORM windlass.accepted_1(p_now, v_of, v_added);
            v_new := v_new || v_added;
        END IF;
        EXIT WHEN cardinality(v_new) = cardinality(p_ids);
        SELECT array_agg(u.ord) INTO v_todo
          FROM unnest(p_ids, p_dedupe_keys) WITH ORDINALITY AS u(id, dedupe_key, ord)
          LEFT JOIN windlass.jobs i ON i.id = u.id
          LEFT JOIN windlass.jobs d ON d.dedupe_held = u.dedupe_key
         WHERE i.id IS NULL AND d.id IS NULL;
        EXIT WHEN v_todo IS NULL;
        IF round = 100 THEN
            RAISE EXCEPTION 'jobs with these dedupe keys come and go too fast' USING ERRCODE = '40001';
        END IF;
    END LOOP;
    RETURN v_new;
END $$;

-- Gives places to those of these new jobs that are not due, or have a key: the latter wait for windlass.expose_1, or,
-- when the snapshot may be too old to see that the key is free (NOT p_fresh), for the next claim. Before: they stand
-- nowhere, and with p_fresh their keys are held. Plans as its caller says. Mirrors: nothing; in core a place follows
-- from the state. Test: conformance (delays, keys), sql_enqueue.
CREATE FUNCTION windlass.place_late_1(p_now bigint, p_fresh boolean, p_new uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH late AS MATERIALIZED (
        SELECT j.*, j.run_at_ms > p_now OR NOT p_fresh AS delayed
          FROM unnest(p_new) AS n(id) JOIN windlass.jobs j ON j.id = n.id
         WHERE j.run_at_ms > p_now OR j.key IS NOT NULL
    ), to_delayed AS (
        INSERT INTO windlass.delayed (run_at_ms, seq, queue)
        SELECT l.run_at_ms, l.seq, l.queue FROM late l WHERE l.delayed
    )
    INSERT INTO windlass.waiting (queue, key, gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
    SELECT l.queue, l.key, l.gate, l.rank, l.seq, l.id, 1, l.run_at_ms, false, l.dedupe_key IS NOT NULL,
           windlass.label_1(l.queue, l.kind, l.key, l.budgets)
      FROM late l WHERE NOT l.delayed;
END $$;

-- Refuses a call that uses the id of a job again for another content, with WL001. Plans as its caller says.
-- Mirrors: Book::enqueue (the conflict of an id). Test: conformance (ids that are used again).
CREATE FUNCTION windlass.refuse_other_content_1(
    p_ids uuid[], p_kinds text[], p_queues text[], p_payloads text[], p_priorities smallint[],
    p_keys text[], p_dedupe_keys text[], p_budgets text[], p_retries text[], p_timeouts bigint[], p_metas text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_conflict uuid;
BEGIN
    SELECT u.id INTO v_conflict
      FROM unnest(p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_keys, p_dedupe_keys, p_budgets,
                  p_retries, p_timeouts, p_metas)
           WITH ORDINALITY AS u(id, kind, queue, payload, priority, key, dedupe_key, budgets,
                  retry, timeout_ms, meta, ord)
      JOIN windlass.jobs j ON j.id = u.id
     WHERE (j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry, j.timeout_ms,
            windlass.meta_content_1(j.meta))
           IS DISTINCT FROM
           (u.kind, u.queue, u.payload, u.priority, u.key, u.dedupe_key, string_to_array(u.budgets, chr(31)),
            u.retry, u.timeout_ms, windlass.meta_content_1(u.meta))
     ORDER BY u.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'job % exists already with another content', v_conflict
              USING ERRCODE = 'WL001', DETAIL = v_conflict::text;
    END IF;
END $$;

-- Accepts a batch in the order asked. When all of it is new, answers with nothing; otherwise, in that order, with the
-- job that is there now for each, and whether it was there before. Where kinds are fewer than ids, the first of each
-- array stands for all jobs, except for ids and payloads, and there are no keys, dedupe keys or times: jobs that are
-- alike cost half as much. With p_strict an id that is used again for another content ends the call with WL001, and
-- nothing changes. Outside READ COMMITTED, what has a key waits for the next claim to look at its key, since the
-- snapshot may be too old to see that the key is free.
-- Mirrors: Book::enqueue. Test: conformance (enqueue), sql_enqueue.
CREATE FUNCTION windlass.enqueue_1(
    p_now bigint, p_strict boolean,
    p_ids uuid[], p_kinds text[], p_queues text[], p_payloads text[], p_priorities smallint[],
    p_keys text[], p_dedupe_keys text[], p_budgets text[], p_retries text[], p_timeouts bigint[], p_metas text[],
    p_run_at bigint[], p_delays bigint[])
RETURNS TABLE (there uuid, deduplicated boolean) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET jit = off AS $$
DECLARE
    v_jobs integer := cardinality(p_ids);
    v_now bigint := windlass.begin_1(p_now);
    v_fresh boolean := current_setting('transaction_isolation') = 'read committed';
    v_keyed boolean := coalesce(array_remove(p_keys, NULL) <> '{}', false);
    v_timed boolean := p_run_at IS NOT NULL OR p_delays IS NOT NULL;
    v_ageing boolean := EXISTS (
        SELECT FROM windlass.queues q WHERE q.name = ANY (p_queues) AND q.ageing_ms IS NOT NULL);
    v_epoch windlass.epoch := windlass.pausing_1(v_now);
    v_seed bigint := 0;
    v_new uuid[] := '{}';
    v_sharing boolean := NOT v_timed AND (p_dedupe_keys IS NULL OR array_position(p_dedupe_keys, NULL) IS NULL);
BEGIN
    IF v_jobs = 1 AND NOT v_keyed AND p_dedupe_keys IS NULL AND NOT v_timed OR cardinality(p_kinds) < v_jobs THEN
        IF v_epoch.number IS NOT NULL THEN
            -- Nothing when they do not all have the same.
            SELECT CASE WHEN min(s.seed) = max(s.seed) THEN min(s.seed) END INTO v_seed
              FROM unnest(p_ids) AS u(id) CROSS JOIN windlass.seed_2(v_epoch, v_now, u.id, NULL, NULL) AS s(seed);
        END IF;
        IF v_seed IS NOT NULL AND windlass.enqueue_alike_1(
            v_now, v_ageing, p_ids, p_kinds[1], p_queues[1], p_payloads, p_priorities[1], p_budgets[1], p_retries[1],
            p_timeouts[1], p_metas[1], v_seed) THEN
            RETURN;
        END IF;
        v_sharing := CASE WHEN v_seed IS NULL THEN v_sharing END;
        p_kinds := array_fill(p_kinds[1], ARRAY[v_jobs]);
        p_queues := array_fill(p_queues[1], ARRAY[v_jobs]);
        p_priorities := array_fill(p_priorities[1], ARRAY[v_jobs]);
        p_budgets := array_fill(p_budgets[1], ARRAY[v_jobs]);
        p_retries := array_fill(p_retries[1], ARRAY[v_jobs]);
        p_timeouts := array_fill(p_timeouts[1], ARRAY[v_jobs]);
        p_metas := array_fill(p_metas[1], ARRAY[v_jobs]);
    END IF;
    IF v_keyed AND v_fresh THEN
        -- With budgets, the gate is known when the job is stored: somebody may define one.
        PERFORM windlass.lock_keys_1(array_agg(k.queue), array_agg(k.key), array_agg(CASE WHEN k.budgets IS NULL THEN
                    hashtextextended(k.queue || chr(31) || k.kind || chr(31) || 'k' || chr(31), 0) END))
           FROM unnest(p_queues, p_keys, p_kinds, p_budgets) AS k(queue, key, kind, budgets) WHERE k.key IS NOT NULL;
    END IF;
    -- Nearly always all of them are new. Of jobs that are alike one is known to be there (v_sharing is nothing).
    v_new := CASE WHEN v_sharing IS NOT NULL AND windlass.enqueue_new_1(
                           v_now, v_epoch, v_ageing, v_sharing, p_ids, p_kinds, p_queues, p_payloads, p_priorities,
                           p_keys, p_dedupe_keys, p_budgets, p_retries, p_timeouts, p_metas, p_run_at, p_delays)
                  THEN p_ids ELSE windlass.enqueue_some_1(
                           v_now, v_epoch, v_ageing, p_ids, p_kinds, p_queues, p_payloads, p_priorities,
                           p_keys, p_dedupe_keys, p_budgets, p_retries, p_timeouts, p_metas, p_run_at, p_delays) END;
    IF (v_keyed OR v_timed) AND v_new <> '{}' THEN
        PERFORM windlass.place_late_1(v_now, v_fresh, v_new);
    END IF;
    IF v_keyed AND v_fresh AND v_new <> '{}' THEN
        PERFORM windlass.expose_1(array_agg(k.queue), array_agg(k.key), false, NULL)
           FROM unnest(p_queues, p_keys) AS k(queue, key) WHERE k.key IS NOT NULL;
    END IF;
    IF cardinality(v_new) = v_jobs THEN
        RETURN;
    END IF;
    IF p_strict THEN
        PERFORM windlass.refuse_other_content_1(p_ids, p_kinds, p_queues, p_payloads, p_priorities, p_keys,
                                                p_dedupe_keys, p_budgets, p_retries, p_timeouts, p_metas);
    END IF;
    RETURN QUERY
    SELECT coalesce(i.id, d.id), n.id IS NULL OR row_number() OVER (PARTITION BY u.id ORDER BY u.ord) > 1
      FROM unnest(p_ids, p_dedupe_keys) WITH ORDINALITY AS u(id, dedupe_key, ord)
      LEFT JOIN unnest(v_new) AS n(id) ON n.id = u.id
      LEFT JOIN windlass.jobs i ON i.id = u.id
      LEFT JOIN windlass.jobs d ON d.dedupe_held = u.dedupe_key
     ORDER BY u.ord;
END $$;
