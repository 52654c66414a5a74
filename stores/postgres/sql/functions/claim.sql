-- Moves due jobs from "delayed" to "ready" or, with a key, behind their key.
CREATE FUNCTION windlass.promote_1(p_now bigint, p_max integer) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_seqs bigint[];
    v_queues text[];
    v_keys text[];
BEGIN
    SELECT array_agg(d.seq), array_agg(d.queue), array_agg(d.key) INTO v_seqs, v_queues, v_keys
      FROM (SELECT j.seq, j.queue, j.key FROM windlass.jobs j
             WHERE j.lane = 2 AND j.run_at_ms <= p_now ORDER BY j.run_at_ms LIMIT p_max) d
     WHERE d.key IS NOT NULL;
    IF v_seqs IS NOT NULL THEN
        PERFORM windlass.lock_keys_1(v_queues, v_keys);
        UPDATE windlass.jobs j SET lane = 3 FROM unnest(v_seqs) AS s(seq)
         WHERE j.seq = s.seq AND j.lane = 2 AND j.run_at_ms <= p_now;
        PERFORM windlass.expose_1(v_queues, v_keys);
    END IF;
    UPDATE windlass.jobs j SET lane = 1
      FROM (SELECT d.seq FROM windlass.jobs d
             WHERE d.lane = 2 AND d.run_at_ms <= p_now AND d.key IS NULL
             ORDER BY d.run_at_ms LIMIT p_max FOR UPDATE SKIP LOCKED) due
     WHERE j.seq = due.seq;
END $$;

-- Gives leases. Always answers with at least one row; its first two columns
-- are the time and the moment when time alone may free another job, and the
-- others are a leased job, or nothing.
--
-- Locks: the keys of due jobs (promotion) come first; then the rows of limited
-- queues and of budgets, each sorted; then the jobs with the rows of their keys,
-- which are not waited for: who holds a queue or a budget waits for nothing else.
CREATE FUNCTION windlass.claim_1(
    p_now bigint, p_request uuid, p_worker text, p_queues text[], p_kinds text[], p_limit integer,
    p_lease_ms bigint, p_promote_max integer)
RETURNS TABLE (
    now_ms bigint, next_ms bigint, seq bigint, id uuid, kind text, queue text, payload text, priority smallint,
    key text, dedupe_key text, budgets text[], retry text, timeout_ms bigint, meta text, rank bigint,
    created_ms bigint, run_at_ms bigint, state smallint, attempt integer, crashes integer, fence bigint,
    retries integer, started_ms bigint, worker text, lease_ms bigint, expires_ms bigint, cancel_requested boolean,
    ended_ms bigint, failure smallint, result text, progress text, history text, policy text, steps text)
LANGUAGE plpgsql
-- Without sorting, the head of a gate is read off its index, whatever the
-- statistics say about how few jobs are ready.
SET enable_sort = off SET enable_incremental_sort = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_next bigint;
    v_seqs bigint[];
    v_leases bigint[];
    v_gates bigint[];
    v_of text[];
    v_kinds text[];
    v_budgets text[];
    v_lease_ms bigint[];
    v_takes bigint[];
    v_limited text[];
    v_spending text[];
    v_room jsonb := '{}';
    v_names text[];
    v_at integer;
    v_keyed boolean[];
    v_crossed boolean;
    v_used jsonb := '{}';
    v_picks bigint[];
    r record;
BEGIN
    IF EXISTS (SELECT FROM windlass.claims c WHERE c.request_id = p_request) THEN
        RETURN QUERY
        SELECT v_now, NULL::bigint, j.*
          FROM windlass.claims c
         CROSS JOIN unnest(c.seqs, c.fences) WITH ORDINALITY AS l(seq, fence, ord)
          JOIN windlass.jobs_1 j ON j.seq = l.seq AND j.state = 1 AND j.fence = l.fence AND j.expires_ms > v_now
         WHERE c.request_id = p_request ORDER BY l.ord;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM windlass.jobs j WHERE j.lane = 2 AND j.run_at_ms <= v_now) THEN
        PERFORM windlass.promote_1(v_now, p_promote_max);
    END IF;
    WITH RECURSIVE gates AS (
        (SELECT j.gate, j.queue, j.kind, j.budgets, j.key FROM windlass.jobs j WHERE j.lane = 1
          ORDER BY j.gate, j.rank, j.seq LIMIT 1)
        UNION ALL
        SELECT n.* FROM gates g CROSS JOIN LATERAL (
            SELECT j.gate, j.queue, j.kind, j.budgets, j.key FROM windlass.jobs j WHERE j.lane = 1 AND j.gate > g.gate
             ORDER BY j.gate, j.rank, j.seq LIMIT 1) n
    )
    SELECT array_agg(g.gate), array_agg(g.queue), array_agg(g.kind),
           array_agg(coalesce(array_to_string(g.budgets, chr(31)), '')),
           array_agg(coalesce(p_lease_ms, q.lease_ms, 30000)),
           array_agg(g.key IS NOT NULL),
           array_agg(g.queue) FILTER (WHERE q.limit_jobs IS NOT NULL),
           -- Whether a key may have ready jobs in more than one gate.
           count(*) FILTER (WHERE g.key IS NOT NULL)
               > count(DISTINCT g.queue) FILTER (WHERE g.key IS NOT NULL)
      INTO v_gates, v_of, v_kinds, v_budgets, v_lease_ms, v_keyed, v_limited, v_crossed
      FROM gates g LEFT JOIN windlass.queues q ON q.name = g.queue
     WHERE g.queue = ANY (p_queues) AND (p_kinds IS NULL OR g.kind = ANY (p_kinds)) AND q.paused IS NOT TRUE;

    IF v_gates IS NOT NULL AND p_limit > 0 THEN
        IF v_limited IS NOT NULL THEN
            PERFORM FROM windlass.queues q WHERE q.name = ANY (v_limited) ORDER BY q.name FOR UPDATE;
            SELECT jsonb_object_agg('q' || q.name, greatest(0, q.limit_jobs -
                       (SELECT count(*) FROM windlass.jobs j WHERE j.lease_ms IS NOT NULL AND j.queue = q.name))) INTO v_room
              FROM windlass.queues q WHERE q.name = ANY (v_limited) AND q.limit_jobs IS NOT NULL;
            v_room := coalesce(v_room, '{}');
        END IF;
        SELECT array_agg(DISTINCT b.name) INTO v_spending
          FROM unnest(v_budgets) AS g(names) CROSS JOIN unnest(string_to_array(g.names, chr(31))) AS b(name)
         WHERE g.names <> '';
        IF v_spending IS NOT NULL THEN
            PERFORM FROM windlass.budgets b WHERE b.name = ANY (v_spending) ORDER BY b.name FOR UPDATE;
            SELECT v_room || coalesce(jsonb_object_agg('b' || b.name, greatest(0, least(
                       windlass.spendable_1(b, v_now),
                       b.slots - (SELECT count(*) FROM windlass.jobs j
                                   WHERE j.lease_ms IS NOT NULL AND j.budgets IS NOT NULL AND b.name = ANY (j.budgets))))), '{}')
              INTO v_room FROM windlass.budgets b WHERE b.name = ANY (v_spending);
        END IF;

        -- How many each gate gives.
        IF v_room <> '{}' OR v_crossed THEN
            v_takes := array_fill(0::bigint, ARRAY[cardinality(v_gates)]);
            FOR r IN
                SELECT g.at, g.queue, g.names, head.seq, head.key
                  FROM (SELECT u.at, u.gate, u.queue, u.kind, u.names,
                               (SELECT least(p_limit, min((v_room ->> n.name)::bigint))
                                  FROM (SELECT 'q' || u.queue AS name UNION ALL
                                        SELECT 'b' || b.name FROM unnest(string_to_array(u.names, chr(31))) AS b(name)) n
                               ) AS cap
                          FROM unnest(v_gates, v_of, v_kinds, v_budgets) WITH ORDINALITY
                               AS u(gate, queue, kind, names, at)) g
                 CROSS JOIN LATERAL (
                       SELECT j.rank, j.seq, j.key FROM windlass.jobs j
                        WHERE j.lane = 1 AND j.gate = g.gate AND j.queue = g.queue AND j.kind = g.kind
                        -- As many again can have a key that another gate takes.
                        ORDER BY j.rank, j.seq
                        LIMIT CASE WHEN v_crossed AND g.cap > 0 THEN g.cap + p_limit ELSE g.cap END) head
                 ORDER BY head.rank, head.seq
            LOOP
                CONTINUE WHEN v_crossed AND r.key IS NOT NULL AND v_used ? (r.queue || chr(31) || r.key);
                v_names := ARRAY(SELECT n.name FROM (SELECT 'q' || r.queue AS name UNION ALL
                    SELECT 'b' || b.name FROM unnest(string_to_array(r.names, chr(31))) AS b(name)) n
                    WHERE v_room ? n.name);
                CONTINUE WHEN EXISTS (SELECT FROM unnest(v_names) AS n(name) WHERE (v_room ->> n.name)::bigint <= 0);
                SELECT v_room || coalesce(jsonb_object_agg(n.name, (v_room ->> n.name)::bigint - 1), '{}')
                  INTO v_room FROM unnest(v_names) AS n(name);
                IF v_crossed AND r.key IS NOT NULL THEN
                    v_used := v_used || jsonb_build_object(r.queue || chr(31) || r.key, 1);
                    v_picks := v_picks || r.seq;
                END IF;
                v_at := r.at;
                v_takes[v_at] := v_takes[v_at] + 1;
                p_limit := p_limit - 1;
                EXIT WHEN p_limit <= 0;
            END LOOP;
        ELSIF cardinality(v_gates) = 1 THEN
            v_takes := ARRAY[p_limit];
        ELSE
            SELECT array_agg(coalesce(t.takes, 0) ORDER BY u.at) INTO v_takes
              FROM generate_series(1, cardinality(v_gates)) AS u(at)
              LEFT JOIN (
                   SELECT h.at, count(*) AS takes FROM (
                       SELECT g.at FROM unnest(v_gates, v_of, v_kinds) WITH ORDINALITY AS g(gate, queue, kind, at)
                        CROSS JOIN LATERAL (
                              SELECT j.rank, j.seq FROM windlass.jobs j
                               WHERE j.lane = 1 AND j.gate = g.gate AND j.queue = g.queue AND j.kind = g.kind
                               ORDER BY j.rank, j.seq LIMIT p_limit) head
                        ORDER BY head.rank, head.seq LIMIT p_limit) h
                    GROUP BY h.at) t ON t.at = u.at;
        END IF;

        SELECT array_agg(t.seq), array_agg(g.lease_ms) INTO v_seqs, v_leases
          FROM unnest(v_gates, v_takes, v_of, v_kinds, v_budgets, v_lease_ms, v_keyed)
               AS g(gate, takes, queue, kind, names, lease_ms, keyed)
         CROSS JOIN LATERAL (
               SELECT j.seq FROM windlass.jobs j
                WHERE j.lane = 1 AND j.gate = g.gate AND j.queue = g.queue AND j.kind = g.kind AND j.key IS NULL
                  AND coalesce(array_to_string(j.budgets, chr(31)), '') = g.names
                ORDER BY j.rank, j.seq LIMIT g.takes FOR UPDATE SKIP LOCKED) t
         WHERE g.takes > 0 AND NOT g.keyed;
        IF true = ANY (v_keyed) THEN
            SELECT v_seqs || array_agg(t.seq), v_leases || array_agg(g.lease_ms) INTO v_seqs, v_leases
              FROM unnest(v_gates, v_takes, v_of, v_kinds, v_budgets, v_lease_ms, v_keyed)
                   AS g(gate, takes, queue, kind, names, lease_ms, keyed)
             CROSS JOIN LATERAL (
                   SELECT j.seq FROM windlass.jobs j
                     JOIN windlass.keys k ON k.queue = j.queue AND k.key = j.key
                    WHERE j.lane = 1 AND j.gate = g.gate AND j.queue = g.queue AND j.kind = g.kind
                      AND coalesce(array_to_string(j.budgets, chr(31)), '') = g.names
                      AND (v_picks IS NULL OR j.seq = ANY (v_picks))
                    ORDER BY j.rank, j.seq LIMIT g.takes FOR UPDATE SKIP LOCKED) t
             WHERE g.takes > 0 AND g.keyed;
        END IF;
    END IF;

    IF v_seqs IS NOT NULL THEN
        WITH taken AS (
            UPDATE windlass.jobs j
               SET state = 1, lane = NULL, fence = j.fence + 1, attempt = j.attempt + 1, started_ms = v_now,
                   worker = p_worker, lease_ms = s.lease_ms, cancel_requested = false,
                   expires_ms = windlass.moment_1(v_now + s.lease_ms)
              FROM unnest(v_seqs, v_leases) AS s(seq, lease_ms)
             WHERE j.seq = s.seq
            RETURNING j.seq, j.fence, j.rank, j.id, j.queue
        ), ordered AS (
            SELECT t.*, row_number() OVER (ORDER BY t.rank, t.seq) AS n FROM taken t
        ), remembered AS (
            INSERT INTO windlass.claims (request_id, at_ms, seqs, fences)
            SELECT p_request, v_now, array_agg(o.seq ORDER BY o.n), array_agg(o.fence ORDER BY o.n) FROM ordered o
        )
        INSERT INTO windlass.events (at_ms, what, queue, jobs)
        SELECT v_now, 1, o.queue, array_agg(o.id ORDER BY o.n) FROM ordered o GROUP BY o.queue ORDER BY min(o.n);
        IF true = ANY (v_keyed) THEN
            -- The keys are taken: their ready jobs of other gates wait again.
            UPDATE windlass.jobs o SET lane = 3
              FROM unnest(v_seqs) AS s(seq)
             CROSS JOIN LATERAL (
                   SELECT j.queue, j.key FROM windlass.jobs j WHERE j.seq = s.seq AND j.key IS NOT NULL LIMIT 1) k
             CROSS JOIN LATERAL (
                   SELECT r.seq FROM windlass.jobs r
                    WHERE r.queue = k.queue AND r.key = k.key AND r.lane = 1 LIMIT 10000) r
             WHERE o.seq = r.seq;
        END IF;
        IF v_spending IS NOT NULL THEN
            UPDATE windlass.budgets b
               SET second_window = CASE WHEN b.per_second IS NULL THEN b.second_window
                                        ELSE windlass.add_spent_1(b.second_window, 20, 50, s.amount, v_now) END,
                   day_window = CASE WHEN b.per_day IS NULL THEN b.day_window
                                     ELSE windlass.add_spent_1(b.day_window, 300000, 288, s.amount, v_now) END
              FROM (SELECT u.name, count(*) AS amount
                      FROM windlass.jobs j CROSS JOIN unnest(j.budgets) AS u(name)
                     WHERE j.seq = ANY (v_seqs) GROUP BY u.name) s
             WHERE b.name = s.name AND (b.per_second IS NOT NULL OR b.per_day IS NOT NULL);
        END IF;
    END IF;

    SELECT min(m.ms) INTO v_next FROM (
        SELECT min(j.run_at_ms) AS ms FROM windlass.jobs j WHERE j.lane = 2
        UNION ALL
        SELECT CASE WHEN b.cooling_ms > v_now THEN b.cooling_ms ELSE windlass.budget_free_1(b, v_now) END FROM windlass.budgets b
         WHERE b.name = ANY (v_spending) AND windlass.spendable_1(b, v_now) = 0) m;

    RETURN QUERY
    SELECT v_now, v_next, j.* FROM (VALUES (1)) AS always(one)
      LEFT JOIN windlass.jobs_1 j ON j.seq = ANY (v_seqs)
     ORDER BY j.rank, j.seq;
END $$;
