-- What windlass_core::pick is told of a claim that limits, budgets or crossed keys bound.

-- The heads of gates, gate by gate (ats) and each in order, no more of each than p_caps says. Those of gates that are
-- p_held stay as they are until the transaction ends: what others hold is passed by, and nobody else claims of them,
-- since what bounds them is locked; so what is picked of them can be taken. Of the other gates nothing is locked:
-- whoever is faster has it. Plans as its caller says. Mirrors: pick::Heads. Test: conformance (limits, budgets, keys at
-- several gates).
CREATE FUNCTION windlass.heads_1(
    p_gates windlass.gates, p_caps bigint[], p_held boolean[],
    OUT ats bigint[], OUT ranks bigint[], OUT seqs bigint[], OUT keys text[], OUT bytes bigint[])
LANGUAGE plpgsql AS $$
BEGIN
    WITH gate AS MATERIALIZED (
        SELECT * FROM unnest(p_gates.rooms, p_gates.gates, p_gates.labels, p_gates.queues, p_gates.keyed, p_caps,
                             p_held)
               WITH ORDINALITY AS g(room, gate, label, queue, keyed, cap, held, at)
    ), head AS (
        SELECT g.at, t.* FROM gate g CROSS JOIN LATERAL (
            SELECT h.rank, u.seq, h.key, h.known FROM (
                SELECT h.* FROM windlass.ready h
                 WHERE h.room = g.room AND h.gate = g.gate AND windlass.is_of_1(h.label, g.label)
                 ORDER BY h.rank, h.seq FOR UPDATE SKIP LOCKED) h
             CROSS JOIN unnest(h.seq || h.more_seqs) AS u(seq) LIMIT g.cap) t
         WHERE g.held AND NOT g.keyed
        UNION ALL
        SELECT g.at, t.* FROM gate g CROSS JOIN LATERAL (
            SELECT h.rank, h.seq, h.key, h.known FROM windlass.ready h
              JOIN windlass.keys k ON k.queue = g.queue AND k.key = h.key AND k.holder IS NULL
             WHERE h.room = g.room AND h.gate = g.gate AND windlass.is_of_1(h.label, g.label)
             ORDER BY h.rank, h.seq LIMIT g.cap FOR UPDATE SKIP LOCKED) t
         WHERE g.held AND g.keyed
        UNION ALL
        SELECT g.at, t.* FROM gate g CROSS JOIN LATERAL (
            SELECT h.rank, u.seq, h.key, h.known FROM windlass.ready h CROSS JOIN unnest(h.seq || h.more_seqs) AS u(seq)
             WHERE h.room = g.room AND h.gate = g.gate AND windlass.is_of_1(h.label, g.label)
             ORDER BY h.rank, h.seq LIMIT g.cap) t
         WHERE NOT g.held
    )
    SELECT array_agg(h.at), array_agg(h.rank), array_agg(h.seq), array_agg(h.key), array_agg(
               (SELECT octet_length(j.payload) FROM windlass.jobs j WHERE j.seq = h.seq)
               + CASE WHEN h.known THEN coalesce((
                     SELECT sum(octet_length(s.output)) FROM windlass.steps s WHERE s.job_seq = h.seq), 0) ELSE 0 END)
      INTO ats, ranks, seqs, keys, bytes FROM head h;
END $$;

-- Locks what bounds a claim, limited queues and budgets, each sorted, and answers with the time, which is that of its
-- last wait, with when time alone may free others, budgets aside, with the gates (as text, for windlass.claim_3, and of
-- each its queue and its budgets), with the rooms of these: of limited queues the limit and how many run, and the
-- budgets that are defined; and with the heads of the gates, as many as the claim may want.
-- Says that the request was answered before, and nothing else, when it was: windlass.claim_3 knows what to do.
-- Before: a transaction has begun. Mirrors: pick::Rooms. Test: conformance (limits, budgets, keys at several gates).
CREATE FUNCTION windlass.survey_1(
    p_now bigint, p_request uuid, p_asked text, p_queues text[], p_kinds text[], p_limit integer, p_lease_ms bigint,
    p_promote_max integer,
    OUT now_ms bigint, OUT next_ms bigint, OUT answered boolean, OUT instance uuid, OUT bounded boolean,
    OUT gates text, OUT queues text[], OUT budgets text[], OUT rooms text,
    OUT ats bigint[], OUT ranks bigint[], OUT seqs bigint[], OUT keys text[], OUT bytes bigint[])
LANGUAGE plpgsql
SET enable_sort = off SET enable_incremental_sort = off
{planned} AS $$
#variable_conflict use_column
DECLARE
    a record;
    v_gates windlass.gates;
    v_names text[];
    v_caps bigint[];
    v_held boolean[];
BEGIN
    -- What is locked here is waited for by others: who freezes before he has said what he takes is not waited for long.
    PERFORM set_config('idle_in_transaction_session_timeout', '{picking_ms}', true);
    a := windlass.ask_1(p_now, p_request, p_asked, p_queues, p_kinds, p_limit, p_lease_ms, p_promote_max);
    v_gates := a.gates;
    IF v_gates.limited IS NOT NULL THEN
        PERFORM FROM windlass.queues q WHERE q.name = ANY (v_gates.limited) ORDER BY q.name FOR UPDATE;
    END IF;
    IF v_gates.spends THEN
        v_names := ARRAY(
            SELECT b.name FROM windlass.budgets b WHERE b.name IN (
                SELECT n.name FROM unnest(v_gates.budgets) AS g(names)
                 CROSS JOIN unnest(string_to_array(g.names, chr(31))) AS n(name))
             ORDER BY b.name FOR UPDATE);
    END IF;
    SELECT greatest(a.now_ms, windlass.begin_1(p_now)), a.next_ms, a.answered, e.instance,
           CASE WHEN v_gates.gates IS NOT NULL THEN windlass.is_bounded_1(v_gates) END, v_gates::text, v_gates.queues,
           v_gates.budgets,
           json_build_object(
               'queues', (SELECT json_agg(json_build_array(q.name, q.limit_jobs, windlass.running_1(0, q.name)))
                            FROM windlass.queues q WHERE q.name = ANY (v_gates.limited) AND q.limit_jobs IS NOT NULL),
               'budgets', (SELECT json_agg(json_build_array(
                                  b.name, b.slots, b.per_second, b.per_minute, b.per_day, b.cooling_ms,
                                  b.second_window, b.minute_window, b.day_window, windlass.running_1(1, b.name)))
                             FROM windlass.budgets b WHERE b.name = ANY (v_names)))::text
      INTO now_ms, next_ms, answered, instance, bounded, gates, queues, budgets, rooms FROM windlass.epoch e;
    IF v_gates.gates IS NULL THEN
        RETURN;
    END IF;
    -- One more than may be wanted, so that core sees that there are more; and of crossed keys as many again as other
    -- gates may take.
    SELECT array_agg(1 + least(p_limit, q.limit_jobs, b.bound) + CASE WHEN v_gates.crossed THEN p_limit ELSE 0 END
                     ORDER BY g.at),
           array_agg(q.limit_jobs IS NOT NULL OR b.defined > 0 ORDER BY g.at)
      INTO v_caps, v_held
      FROM unnest(v_gates.queues, v_gates.budgets) WITH ORDINALITY AS g(queue, names, at)
      LEFT JOIN windlass.queues q ON q.name = g.queue
     CROSS JOIN LATERAL (
           SELECT min(least(b.slots, b.per_second, b.per_minute, b.per_day)) AS bound, count(*) AS defined
             FROM unnest(string_to_array(g.names, chr(31))) AS n(name) JOIN windlass.budgets b ON b.name = n.name) b;
    SELECT h.* INTO ats, ranks, seqs, keys, bytes FROM windlass.heads_1(v_gates, v_caps, v_held) h;
END $$;
