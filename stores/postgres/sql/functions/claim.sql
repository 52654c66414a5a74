-- When the first of the delayed jobs of these queues is due. Plans as its caller says, whose plan reads heads off
-- indexes; a function in SQL would be planned anew each time. Mirrors: Line::next_due. Test: conformance (delays).
CREATE FUNCTION windlass.next_due_1(p_queues text[]) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT min(d.run_at_ms) FROM unnest(p_queues) AS q(name) CROSS JOIN LATERAL (
        SELECT d.run_at_ms FROM windlass.delayed d WHERE d.queue = q.name
         ORDER BY d.queue, d.run_at_ms, d.seq LIMIT 1) d);
END $$;

-- Moves due jobs of these queues from "delayed" to "ready" or, with a key, behind their key.
CREATE FUNCTION windlass.promote_1(p_now bigint, p_max integer, p_queues text[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_spots tid[];
    v_queues text[];
    v_keys text[];
    v_gates bigint[];
    v_of text[] := ARRAY(SELECT DISTINCT u.name FROM unnest(p_queues) AS u(name));
BEGIN
    SELECT array_agg(j.queue), array_agg(j.key), array_agg(j.gate) INTO v_queues, v_keys, v_gates
      FROM (SELECT d.seq FROM unnest(v_of) AS q(name) CROSS JOIN LATERAL (
                SELECT d.run_at_ms, d.seq FROM windlass.delayed d WHERE d.queue = q.name AND d.run_at_ms <= p_now
                 ORDER BY d.queue, d.run_at_ms, d.seq LIMIT p_max) d ORDER BY d.run_at_ms, d.seq LIMIT p_max) due
      JOIN windlass.jobs j ON j.seq = due.seq
     WHERE j.key IS NOT NULL;
    IF v_keys IS NOT NULL THEN
        PERFORM windlass.lock_keys_1(v_queues, v_keys, v_gates);
    END IF;
    -- Those whose keys came in since stay where they are until the next time.
    SELECT array_agg(due.spot) INTO v_spots FROM (
        SELECT d.spot, d.seq FROM unnest(v_of) AS q(name) CROSS JOIN LATERAL (
            SELECT d.ctid AS spot, d.run_at_ms, d.seq FROM windlass.delayed d
             WHERE d.queue = q.name AND d.run_at_ms <= p_now
             ORDER BY d.queue, d.run_at_ms, d.seq LIMIT p_max FOR UPDATE SKIP LOCKED) d
         ORDER BY d.run_at_ms, d.seq LIMIT p_max) due
      JOIN windlass.jobs j ON j.seq = due.seq
     WHERE j.key IS NULL OR (j.queue, j.key) IN (SELECT u.queue, u.key FROM unnest(v_queues, v_keys) AS u(queue, key));
    PERFORM windlass.cut_1(windlass.room_1(j.queue, j.kind), j.gate, j.rank, j.seq)
       FROM windlass.delayed d JOIN windlass.jobs j ON j.seq = d.seq WHERE d.ctid = ANY (v_spots) AND j.key IS NULL;
    WITH due AS (
        DELETE FROM windlass.delayed d WHERE d.ctid = ANY (v_spots) RETURNING d.seq
    ), jobs AS MATERIALIZED (
        SELECT j.seq, j.id, j.queue, j.key, j.gate, j.rank, coalesce(r.fence, 0) + 1 AS fence,
               coalesce(r.run_at_ms, j.run_at_ms) AS run_at_ms, r.seq IS NOT NULL AS known,
               j.dedupe_key IS NOT NULL AS deduped, windlass.label_1(j.queue, j.kind, j.key, j.budgets) AS label
          FROM due d JOIN windlass.jobs j ON j.seq = d.seq LEFT JOIN windlass.runs r ON r.seq = d.seq
    ), to_waiting AS (
        INSERT INTO windlass.waiting (queue, key, gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
        SELECT j.queue, j.key, j.gate, j.rank, j.seq, j.id, j.fence, j.run_at_ms, j.known, j.deduped, j.label
          FROM jobs j WHERE j.key IS NOT NULL
    )
    INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
    SELECT j.gate, j.rank, j.seq, j.id, j.fence, j.run_at_ms, j.known, j.deduped, j.label FROM jobs j
        WHERE j.key IS NULL;
    IF v_keys IS NOT NULL THEN
        PERFORM windlass.expose_1(v_queues, v_keys, false, NULL);
    END IF;
END $$;

-- How many jobs each gate gives to a claim, when limits, budgets or keys at several gates bound it, and which of those
-- that have keys: mirrors windlass_core::pick. p_room says how much is left of each queue ("q" and its name) and budget
-- ("b" and its name).
CREATE FUNCTION windlass.takes_1(
    p_limit integer, p_room jsonb, p_crossed boolean, p_rooms bigint[], p_gates bigint[], p_labels text[], p_of text[],
    p_budgets text[])
RETURNS TABLE (takes bigint[], picks bigint[])
LANGUAGE plpgsql
SET enable_sort = off SET enable_incremental_sort = off
{planned} AS $$
DECLARE
    v_room jsonb := p_room;
    v_left integer := p_limit;
    v_names text[];
    v_at integer;
    v_used jsonb := '{}';
    r record;
BEGIN
    takes := array_fill(0::bigint, ARRAY[cardinality(p_gates)]);
    FOR r IN
        SELECT g.at, g.queue, g.names, head.seq, head.key
          FROM (SELECT u.at, u.room, u.gate, u.label, u.queue, u.names,
                       (SELECT least(p_limit, min((p_room ->> n.name)::bigint))
                          FROM (SELECT 'q' || u.queue AS name UNION ALL
                                SELECT 'b' || b.name FROM unnest(string_to_array(u.names, chr(31))) AS b(name)) n
                       ) AS cap
                  FROM unnest(p_rooms, p_gates, p_labels, p_of, p_budgets) WITH ORDINALITY
                       AS u(room, gate, label, queue, names, at)) g
         CROSS JOIN LATERAL (
               SELECT h.rank, u.seq, h.key FROM windlass.ready h CROSS JOIN unnest(h.seq || h.more_seqs) AS u(seq)
                WHERE h.room = g.room AND h.gate = g.gate AND h.label = g.label
                -- As many again can have a key that another gate takes.
                ORDER BY h.rank, h.seq
                LIMIT CASE WHEN p_crossed AND g.cap > 0 THEN g.cap + p_limit ELSE g.cap END) head
         ORDER BY head.rank, head.seq
    LOOP
        CONTINUE WHEN p_crossed AND r.key IS NOT NULL AND v_used ? (r.queue || chr(31) || r.key);
        v_names := ARRAY(SELECT n.name FROM (SELECT 'q' || r.queue AS name UNION ALL
            SELECT 'b' || b.name FROM unnest(string_to_array(r.names, chr(31))) AS b(name)) n
            WHERE v_room ? n.name);
        CONTINUE WHEN EXISTS (SELECT FROM unnest(v_names) AS n(name) WHERE (v_room ->> n.name)::bigint <= 0);
        SELECT v_room || coalesce(jsonb_object_agg(n.name, (v_room ->> n.name)::bigint - 1), '{}')
          INTO v_room FROM unnest(v_names) AS n(name);
        IF p_crossed AND r.key IS NOT NULL THEN
            v_used := v_used || jsonb_build_object(r.queue || chr(31) || r.key, 1);
            picks := picks || r.seq;
        END IF;
        v_at := r.at;
        takes[v_at] := takes[v_at] + 1;
        v_left := v_left - 1;
        EXIT WHEN v_left <= 0;
    END LOOP;
    RETURN NEXT;
END $$;

-- Spends of the budgets of gates for the jobs that were claimed at them (p_ats: of each job, which gate), and counts
-- their slots.
CREATE FUNCTION windlass.spend_claimed_1(p_now bigint, p_ats bigint[], p_budgets text[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    UPDATE windlass.budgets b
       SET (writes, second_window, minute_window, day_window) = (
               SELECT * FROM windlass.spend_1(b, s.amount, s.amount, s.amount, p_now))
      FROM (SELECT n.name, sum(u.jobs)::bigint AS amount
              FROM (SELECT u.at, count(*) AS jobs FROM unnest(p_ats) AS u(at) GROUP BY u.at) u
             CROSS JOIN unnest(string_to_array(p_budgets[u.at], chr(31))) AS n(name)
             GROUP BY n.name) s
     WHERE b.name = s.name AND num_nonnulls(b.per_second, b.per_minute, b.per_day) > 0;
    INSERT INTO windlass.tally (what, name, delta)
    SELECT 1, n.name, sum(u.jobs)
      FROM (SELECT u.at, count(*) AS jobs FROM unnest(p_ats) AS u(at) GROUP BY u.at) u
     CROSS JOIN unnest(string_to_array(p_budgets[u.at], chr(31))) AS n(name)
     WHERE p_budgets[u.at] <> '' GROUP BY n.name;
END $$;

-- Comes into a claim: makes due jobs ready that were delayed, and answers with the time of the claim, which is that of
-- its last wait, and with when the first of the others is due. Before: the request is locked, which may have been
-- waited for. Plans as its caller says. Mirrors: Line::due. Test: conformance (delays), claims.
CREATE FUNCTION windlass.enter_1(
    p_given bigint, p_queues text[], p_promote_max integer, OUT now_ms bigint, OUT next_ms bigint)
LANGUAGE plpgsql AS $$
BEGIN
    now_ms := windlass.clock_1(p_given);
    next_ms := windlass.next_due_1(p_queues);
    IF next_ms <= now_ms THEN
        PERFORM windlass.promote_1(now_ms, p_promote_max, p_queues);
        -- The keys of jobs that are due may have been waited for.
        now_ms := greatest(now_ms, windlass.clock_1(p_given));
        next_ms := windlass.next_due_1(p_queues);
    END IF;
END $$;

-- The gates that a claim may take from: those of its queues and kinds that have ready jobs and are not held back by a
-- pause or an epoch. Locks nothing. Plans as its caller says. Mirrors: eligible (pauses, epochs).
-- Test: conformance (pauses, epochs), claims (gates of others are not looked at).
CREATE FUNCTION windlass.gates_1(
    p_now bigint, p_epoch windlass.epoch, p_queues text[], p_kinds text[], p_lease_ms bigint)
RETURNS windlass.gates LANGUAGE plpgsql AS $$
DECLARE
    -- The rooms of each kind, unless those of whole queues are fewer.
    v_kinds text[] := CASE WHEN cardinality(p_queues) * cardinality(p_kinds) <= 256 THEN p_kinds END;
    v_gates windlass.gates;
BEGIN
    WITH RECURSIVE rooms AS (
        SELECT DISTINCT windlass.room_1(q.name, k.name) AS low, windlass.room_1(q.name, k.name) | k.more AS high
          FROM unnest(p_queues) AS q(name)
         CROSS JOIN (SELECT k.name, 0::bigint AS more FROM unnest(v_kinds) AS k(name)
                      UNION ALL SELECT NULL, 4294967295 WHERE v_kinds IS NULL) k
    ), heads AS (
        SELECT n.*, r.high FROM rooms r CROSS JOIN LATERAL (
            SELECT h.room, h.gate, h.label FROM windlass.ready h WHERE h.room >= r.low AND h.room <= r.high
             ORDER BY h.room, h.gate, h.rank, h.seq LIMIT 1) n
        UNION ALL
        SELECT n.*, g.high FROM heads g CROSS JOIN LATERAL (
            SELECT h.room, h.gate, h.label FROM windlass.ready h
             WHERE (h.room, h.gate) > (g.room, g.gate) AND h.room <= g.high
             ORDER BY h.room, h.gate, h.rank, h.seq LIMIT 1) n
    ), found AS (
        SELECT h.room, h.gate, h.label, split_part(h.label, chr(31), 1) AS queue,
               split_part(h.label, chr(31), 2) AS kind, split_part(h.label, chr(31), 3) = 'k' AS keyed,
               array_to_string((string_to_array(h.label, chr(31)))[4:], chr(31)) AS names,
               -- How many jobs a row seems to have: the first may be what a claim has left.
               (SELECT 1 + coalesce(max(cardinality(first.more_seqs)), 0) FROM (
                    SELECT r.more_seqs FROM windlass.ready r WHERE r.room = h.room AND r.gate = h.gate
                     ORDER BY r.rank, r.seq LIMIT 2) first) AS jobs
          FROM heads h
    )
    SELECT array_agg(g.room), array_agg(g.gate), array_agg(g.label), array_agg(g.jobs), array_agg(g.queue),
           array_agg(g.names), array_agg(coalesce(p_lease_ms, q.lease_ms, 30000)), array_agg(q.policy),
           array_agg(g.keyed), array_agg(g.queue) FILTER (WHERE q.limit_jobs IS NOT NULL), bool_or(g.names <> ''),
           bool_or(g.keyed), count(*) FILTER (WHERE g.keyed) > count(DISTINCT g.queue) FILTER (WHERE g.keyed)
      INTO v_gates
      FROM found g LEFT JOIN windlass.queues q ON q.name = g.queue
     WHERE g.queue = ANY (p_queues) AND (p_kinds IS NULL OR g.kind = ANY (p_kinds)) AND q.paused IS NOT TRUE
       AND (p_epoch.number IS NULL
            OR windlass.held_until_1(p_epoch, p_now, g.gate, g.label, q.limit_jobs) IS NULL);
    RETURN v_gates;
END $$;

-- Locks the limited queues and the budgets of gates, each sorted, and answers with how much is left of each ("q" or "b"
-- and its name), with the names of the budgets, and with the time of the claim: these locks may have been waited for,
-- and leases begin after the end of everything that is counted as ended. Plans as its caller says.
-- Mirrors: pick::Rooms, Budget::spendable. Test: conformance (limits, budgets).
CREATE FUNCTION windlass.lock_rooms_1(
    p_given bigint, p_now bigint, p_gates windlass.gates, OUT room jsonb, OUT spending text[], OUT now_ms bigint)
LANGUAGE plpgsql AS $$
BEGIN
    room := '{}';
    IF p_gates.limited IS NOT NULL THEN
        PERFORM FROM windlass.queues q WHERE q.name = ANY (p_gates.limited) ORDER BY q.name FOR UPDATE;
        SELECT coalesce(jsonb_object_agg('q' || q.name, greatest(0, q.limit_jobs - windlass.running_1(0, q.name))),
            '{}')
          INTO room FROM windlass.queues q WHERE q.name = ANY (p_gates.limited) AND q.limit_jobs IS NOT NULL;
    END IF;
    IF p_gates.spends THEN
        SELECT array_agg(DISTINCT b.name) INTO spending
          FROM unnest(p_gates.budgets) AS g(names) CROSS JOIN unnest(string_to_array(g.names, chr(31))) AS b(name)
         WHERE g.names <> '';
        PERFORM FROM windlass.budgets b WHERE b.name = ANY (spending) ORDER BY b.name FOR UPDATE;
        SELECT room || coalesce(jsonb_object_agg('b' || b.name, greatest(0, least(
                   windlass.spendable_1(b, p_now), b.slots - windlass.running_1(1, b.name)))), '{}')
          INTO room FROM windlass.budgets b WHERE b.name = ANY (spending);
    END IF;
    now_ms := greatest(p_now, windlass.begin_1(p_given), (
        SELECT max(windlass.spent_until_1(b)) FROM windlass.budgets b WHERE b.name = ANY (spending)));
END $$;

-- How many jobs each gate gives to a claim that nothing else bounds: a merge of the gates by rank and number. Plans as
-- its caller says. Mirrors: windlass_core::pick without rooms. Test: conformance (several kinds).
CREATE FUNCTION windlass.shares_1(p_limit integer, p_gates windlass.gates) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(p_gates.gates) = 1 THEN
        RETURN ARRAY[p_limit::bigint];
    END IF;
    RETURN (SELECT array_agg(coalesce(t.takes, 0) ORDER BY u.at)
              FROM generate_series(1, cardinality(p_gates.gates)) AS u(at)
              LEFT JOIN (
                   SELECT h.at, count(*) AS takes FROM (
                       SELECT g.at
                         FROM unnest(p_gates.rooms, p_gates.gates, p_gates.labels) WITH ORDINALITY
                              AS g(room, gate, label, at)
                        CROSS JOIN LATERAL (
                              SELECT h.rank, u.seq FROM windlass.ready h CROSS
                                  JOIN unnest(h.seq || h.more_seqs) AS u(seq)
                               WHERE h.room = g.room AND h.gate = g.gate AND h.label = g.label
                               ORDER BY h.rank, h.seq LIMIT p_limit) head
                        ORDER BY head.rank, head.seq LIMIT p_limit) h
                    GROUP BY h.at) t ON t.at = u.at);
END $$;

-- Locks rows of "ready" at gates without keys, as many as seem to be needed for what is left over of each gate's share,
-- those of others not waited for. Answers with the rows, and with those that have more jobs than are wanted and how
-- many of them are. Plans as its caller says. Mirrors: nothing; core reads heads one by one. Test: conformance
-- (batches).
CREATE FUNCTION windlass.lock_rows_1(
    p_gates windlass.gates, p_left bigint[], p_sizes bigint[], OUT spots tid[], OUT cuts tid[], OUT cut_takes bigint[])
LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(t.spot), array_agg(t.spot) FILTER (WHERE t.before + t.jobs > t.left_over),
           array_agg(t.left_over - t.before) FILTER (WHERE t.before + t.jobs > t.left_over)
      INTO spots, cuts, cut_takes
      FROM (SELECT g.left_over, t.spot, t.jobs,
                   sum(t.jobs) OVER (PARTITION BY g.at ORDER BY t.rank, t.seq)::bigint - t.jobs AS before
              FROM unnest(p_gates.rooms, p_gates.gates, p_gates.labels, p_left, p_sizes) WITH ORDINALITY
                   AS g(room, gate, label, left_over, size, at)
             CROSS JOIN LATERAL (
                   SELECT h.ctid AS spot, h.rank, h.seq, 1 + coalesce(cardinality(h.more_seqs), 0) AS jobs
                     FROM windlass.ready h
                    WHERE h.room = g.room AND h.gate = g.gate AND h.label = g.label
                    ORDER BY h.rank, h.seq LIMIT (g.left_over + g.size - 1) / g.size FOR UPDATE SKIP LOCKED) t
             WHERE g.left_over > 0) t
     WHERE t.before < t.left_over;
END $$;

-- Takes locked rows out of "ready", writes back what is left of those that are cut, and begins the runs of jobs with
-- dedupe keys that never ran. Answers with what was taken, together with what was before. Plans as its caller says.
-- Mirrors: transition::claim. Test: conformance (batches, dedupe keys).
CREATE FUNCTION windlass.take_spots_1(
    p_floor bigint, p_worker text, p_gates windlass.gates, p_taken windlass.taken,
    p_spots tid[], p_cuts tid[], p_cut_takes bigint[])
RETURNS windlass.taken LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM windlass.ready h WHERE h.ctid = ANY (p_spots)
        RETURNING array_position(p_gates.gates, h.gate) AS at,
                  coalesce(p_cut_takes[array_position(p_cuts, h.ctid)],
                           1 + coalesce(cardinality(h.more_seqs), 0))::integer AS takes, h.*
    ), rest AS (
        INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, more_seqs, more_ids)
        SELECT g.gate, g.rank, g.more_seqs[g.takes], g.more_ids[g.takes], g.fence, g.run_at_ms, g.known, g.deduped,
               g.label, nullif(g.more_seqs[g.takes + 1:], '{}'), nullif(g.more_ids[g.takes + 1:], '{}')
          FROM gone g WHERE g.takes <= cardinality(g.more_seqs)
    ), begun AS (
        INSERT INTO windlass.runs (seq, fence, run_at_ms, started_ms, lease_ms, expires_ms, attempt, state, deduped,
                                   label, worker)
        SELECT u.seq, greatest(g.fence, p_floor), g.run_at_ms, p_taken.now_ms, p_gates.lease_ms[g.at],
               windlass.moment_1(p_taken.now_ms + p_gates.lease_ms[g.at]), 1, 1, true, g.label, p_worker
          FROM gone g CROSS JOIN LATERAL unnest(g.seq || g.more_seqs[:g.takes - 1]) AS u(seq)
         WHERE g.deduped AND NOT g.known
    )
    SELECT p_taken.now_ms, p_taken.seqs || array_agg(u.seq), p_taken.ranks || array_agg(g.rank),
           p_taken.ats || array_agg(g.at::bigint), p_taken.ids || array_agg(u.id),
           p_taken.fences || array_agg(g.fence), coalesce(p_taken.known, false) OR bool_or(g.known),
           coalesce(p_taken.apart, false) OR bool_or(g.known OR g.deduped), NULL,
           p_taken.spending
      INTO p_taken
      FROM (SELECT g.* FROM gone g ORDER BY g.rank, g.seq) g
     CROSS JOIN LATERAL unnest(g.seq || g.more_seqs[:g.takes - 1], g.id || g.more_ids[:g.takes - 1]) AS u(seq, id);
    RETURN p_taken;
END $$;

-- Takes jobs of gates without keys, as many as each gate's share says: rows are locked, then what they have is taken,
-- and so on until there are enough jobs or no more rows. Where others hold all rows and will leave jobs in them, they
-- are waited for, a few times, and the time of the claim with them. Plans as its caller says. Mirrors:
-- windlass_core::pick. Test: conformance (batches, claims beside claims), claims.
CREATE FUNCTION windlass.take_rows_1(
    p_given bigint, p_floor bigint, p_worker text, p_gates windlass.gates, p_takes bigint[], p_taken windlass.taken)
RETURNS windlass.taken LANGUAGE plpgsql AS $$
DECLARE
    v_sizes bigint[] := p_gates.sizes;
    v_left bigint[] := p_takes;
    v_waits integer := 0;
    r record;
BEGIN
    IF p_gates.keys THEN
        v_left := ARRAY(SELECT CASE WHEN u.keyed THEN 0 ELSE u.takes END
                          FROM unnest(p_takes, p_gates.keyed) WITH ORDINALITY AS u(takes, keyed, at) ORDER BY u.at);
    END IF;
    LOOP
        SELECT * INTO r FROM windlass.lock_rows_1(p_gates, v_left, v_sizes);
        IF r.spots IS NULL THEN
            EXIT WHEN v_waits = 10 OR p_taken.seqs IS NOT NULL OR NOT EXISTS (
                SELECT FROM unnest(v_left, v_sizes) AS g(left_over, size) WHERE g.left_over > 0 AND g.size > 1);
            PERFORM FROM unnest(p_gates.rooms, p_gates.gates) AS g(room, gate) CROSS JOIN LATERAL (
                SELECT FROM windlass.ready h WHERE h.room = g.room AND h.gate = g.gate AND h.more_seqs IS NOT NULL
                 ORDER BY h.gate, h.rank, h.seq LIMIT 1 FOR UPDATE) h LIMIT 1;
            v_waits := v_waits + 1;
            p_taken.now_ms := greatest(p_taken.now_ms, windlass.begin_1(p_given));
            CONTINUE;
        END IF;
        p_taken := windlass.take_spots_1(p_floor, p_worker, p_gates, p_taken, r.spots, r.cuts, r.cut_takes);
        IF cardinality(p_gates.gates) = 1 THEN
            -- Fewer rows than were asked for: there are no more.
            EXIT WHEN cardinality(r.spots) < (v_left[1] + v_sizes[1] - 1) / v_sizes[1];
            v_left[1] := p_takes[1] - cardinality(p_taken.seqs);
        ELSE
            v_left := ARRAY(
                SELECT CASE WHEN g.keyed THEN 0
                            ELSE g.takes - (SELECT count(*) FROM unnest(p_taken.ats) AS u(at) WHERE u.at = g.at) END
                  FROM unnest(p_takes, p_gates.keyed) WITH ORDINALITY AS g(takes, keyed, at) ORDER BY g.at);
        END IF;
        EXIT WHEN 0 >= ALL (v_left);
        v_sizes := array_fill(greatest(1, cardinality(p_taken.seqs) / cardinality(r.spots))::bigint,
                              ARRAY[cardinality(p_gates.gates)]);
    END LOOP;
    RETURN p_taken;
END $$;

-- Locks the rows of jobs with keys that are to be taken, with those of their keys, which are not waited for; with
-- p_picks only these jobs. Answers with them beside what was taken before, in the order of rank and number, and with
-- the rows, which are still there. Plans as its caller says. Mirrors: windlass_core::pick. Test: conformance (keys).
CREATE FUNCTION windlass.lock_keyed_1(
    p_gates windlass.gates, p_takes bigint[], p_picks bigint[], p_taken windlass.taken)
RETURNS windlass.taken LANGUAGE plpgsql AS $$
BEGIN
    SELECT p_taken.now_ms, p_taken.seqs || array_agg(t.seq), p_taken.ranks || array_agg(t.rank),
           p_taken.ats || array_agg(g.at), p_taken.ids || array_agg(t.id), p_taken.fences || array_agg(t.fence),
           coalesce(p_taken.known, false) OR bool_or(t.known),
           coalesce(p_taken.apart, false) OR bool_or(t.known OR t.deduped), array_agg(t.spot),
           p_taken.spending
      INTO p_taken
      FROM unnest(p_gates.rooms, p_gates.gates, p_takes, p_gates.labels, p_gates.queues, p_gates.keyed)
           WITH ORDINALITY AS g(room, gate, takes, label, queue, keyed, at)
     CROSS JOIN LATERAL (
           SELECT h.ctid AS spot, h.seq, h.rank, h.id, h.fence, h.known, h.deduped FROM windlass.ready h
             JOIN windlass.keys k ON k.queue = g.queue AND k.key = h.key AND k.holder IS NULL
            WHERE h.room = g.room AND h.gate = g.gate AND h.label = g.label
              AND (p_picks IS NULL OR h.seq = ANY (p_picks))
            ORDER BY h.rank, h.seq LIMIT g.takes FOR UPDATE SKIP LOCKED) t
     WHERE g.takes > 0 AND g.keyed;
    IF cardinality(p_gates.gates) > 1 THEN
        SELECT array_agg(u.seq), array_agg(u.at), array_agg(u.id), array_agg(u.fence)
          INTO p_taken.seqs, p_taken.ats, p_taken.ids, p_taken.fences
          FROM (SELECT u.* FROM unnest(p_taken.seqs, p_taken.ranks, p_taken.ats, p_taken.ids, p_taken.fences)
                       AS u(seq, rank, at, id, fence)
                 ORDER BY u.rank, u.seq) u;
    END IF;
    RETURN p_taken;
END $$;

-- Takes jobs with keys whose rows are held: they hold their keys now, and ready jobs of the same keys at other gates
-- wait again. Begins the runs of those with dedupe keys that never ran. Plans as its caller says.
-- Mirrors: transition::claim. Test: conformance (keys, keys at several gates).
CREATE FUNCTION windlass.take_keyed_1(
    p_floor bigint, p_worker text, p_gates windlass.gates, p_taken windlass.taken)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM windlass.ready h WHERE h.ctid = ANY (p_taken.spots)
        RETURNING array_position(p_gates.gates, h.gate) AS at, h.seq, h.fence, h.run_at_ms, h.known, h.deduped,
                  h.label, h.key
    ), begun AS (
        INSERT INTO windlass.runs (seq, fence, run_at_ms, started_ms, lease_ms, expires_ms, attempt, state, deduped,
                                   label, key, worker)
        SELECT g.seq, greatest(g.fence, p_floor), g.run_at_ms, p_taken.now_ms, p_gates.lease_ms[g.at],
               windlass.moment_1(p_taken.now_ms + p_gates.lease_ms[g.at]), 1, 1, true, g.label, g.key, p_worker
          FROM gone g WHERE g.deduped AND NOT g.known
    ), held AS (
        UPDATE windlass.keys k SET holder = g.seq
          FROM (SELECT g.seq, g.key, p_gates.queues[g.at] AS queue FROM gone g) g
         WHERE k.queue = g.queue AND k.key = g.key
        RETURNING k.queue, k.key, k.holder
    ), behind AS (
        DELETE FROM windlass.ready h USING held k
         WHERE h.key = k.key AND h.label >= k.queue || chr(31) AND h.label < k.queue || chr(32) AND h.seq <> k.holder
        RETURNING k.queue, h.*
    )
    INSERT INTO windlass.waiting (queue, key, gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
    SELECT b.queue, b.key, b.gate, b.rank, b.seq, b.id, b.fence, b.run_at_ms, b.known, b.deduped, b.label
      FROM behind b;
END $$;

-- Begins the runs of taken jobs that ran before. One that somebody has moved since keeps its row: windlass.untake_1
-- makes good for that. Plans as its caller says. Mirrors: transition::claim. Test: conformance (retries), line.
CREATE FUNCTION windlass.begin_again_1(
    p_floor bigint, p_worker text, p_gates windlass.gates, p_taken windlass.taken)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE windlass.runs r
       SET state = 1, fence = greatest(s.fence, p_floor), attempt = r.attempt + 1, started_ms = p_taken.now_ms,
           worker = p_worker, lease_ms = s.lease_ms, cancel_requested = false,
           expires_ms = windlass.moment_1(p_taken.now_ms + s.lease_ms)
      FROM (SELECT u.seq, u.fence, u.fence - 1 AS before, p_gates.lease_ms[u.at] AS lease_ms, 0 AS queued
              FROM unnest(p_taken.seqs, p_taken.ats, p_taken.fences) AS u(seq, at, fence)) s
     WHERE r.seq = s.seq AND r.state = s.queued AND r.fence = s.before;
END $$;

-- When a budget that has nothing left has some again; nothing when all have some. Plans as its caller says.
-- Mirrors: Budget::free_at. Test: conformance (budgets).
CREATE FUNCTION windlass.spendable_at_1(p_now bigint, p_budgets text[]) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT min(CASE WHEN b.cooling_ms > p_now THEN b.cooling_ms ELSE windlass.budget_free_1(b, p_now) END)
              FROM windlass.budgets b WHERE b.name = ANY (p_budgets) AND windlass.spendable_1(b, p_now) = 0);
END $$;

-- Gives the jobs that were taken their leases, and spends for them. Before: they are out of line, or, with keys, their
-- rows are held. Answers with them and the fences that they have now; ends the call when they have too many bytes.
-- Plans as its caller says. Mirrors: transition::claim, Budget::spend. Test: conformance (every claim), caps.
CREATE FUNCTION windlass.lease_1(
    p_floor bigint, p_worker text, p_lease_ms bigint, p_bytes_max bigint, p_gates windlass.gates,
    p_taken windlass.taken)
RETURNS windlass.taken LANGUAGE plpgsql AS $$
BEGIN
    -- Who can have more than fits has it counted; a payload has a megabyte at most.
    IF cardinality(p_taken.seqs) > 1
       AND (p_taken.known OR cardinality(p_taken.seqs) > p_bytes_max / 1048576) THEN
        PERFORM windlass.bounded_1(p_taken.seqs, p_bytes_max, p_taken.known);
    END IF;
    IF p_taken.spots IS NOT NULL THEN
        PERFORM windlass.take_keyed_1(p_floor, p_worker, p_gates, p_taken);
    END IF;
    IF p_taken.known THEN
        PERFORM windlass.begin_again_1(p_floor, p_worker, p_gates, p_taken);
    END IF;
    IF p_floor > 1 THEN
        p_taken.fences := ARRAY(SELECT greatest(u.fence, p_floor)
                                  FROM unnest(p_taken.fences) WITH ORDINALITY AS u(fence, ord) ORDER BY u.ord);
    END IF;
    IF p_lease_ms IS NOT NULL THEN
        PERFORM windlass.note_lease_1(p_taken.now_ms, p_lease_ms, ARRAY(
            SELECT DISTINCT p_gates.queues[u.at] FROM unnest(p_taken.ats) AS u(at)));
    END IF;
    IF p_gates.spends THEN
        PERFORM windlass.spend_claimed_1(p_taken.now_ms, p_taken.ats, p_gates.budgets);
    END IF;
    RETURN p_taken;
END $$;

-- The jobs that a claim took, some of which ran before. Somebody who found a job before it was ready may have moved it
-- meanwhile: that is made good. Plans as its caller says. Mirrors: nothing; it is the answer.
-- Test: a_place_without_its_job_holds_up_nobody.
CREATE FUNCTION windlass.leased_2(p_taken windlass.taken, p_numbers bigint[]) RETURNS SETOF windlass.jobs_1
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    RETURN QUERY
    SELECT j.* FROM (SELECT u.seq, u.fence, 1 AS running FROM unnest(p_taken.seqs, p_taken.fences) AS u(seq, fence)) u
      JOIN windlass.jobs_1 j ON j.seq = u.seq AND j.fence = u.fence AND j.state = u.running;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> cardinality(p_taken.seqs) THEN
        PERFORM windlass.untake_2(p_taken.seqs, p_taken.fences, p_numbers);
    END IF;
END $$;

-- Picks jobs for a claim at these gates and takes them out of line, but for those with keys, whose rows are only held.
-- Answers with what was taken; the time of the claim and the budgets that it is bound by are there also when that is
-- nothing. Plans as its caller says. Mirrors: windlass_core::pick. Test: conformance (every claim).
CREATE FUNCTION windlass.pick_1(
    p_given bigint, p_now bigint, p_worker text, p_limit integer, p_floor bigint, p_gates windlass.gates)
RETURNS windlass.taken LANGUAGE plpgsql AS $$
DECLARE
    v_room jsonb := '{}';
    v_takes bigint[];
    v_picks bigint[];
    v_taken windlass.taken;
BEGIN
    v_taken.now_ms := p_now;
    IF p_gates.limited IS NOT NULL OR p_gates.spends THEN
        SELECT l.room, l.spending, l.now_ms INTO v_room, v_taken.spending, v_taken.now_ms
          FROM windlass.lock_rooms_1(p_given, p_now, p_gates) l;
    END IF;
    IF v_room = '{}' AND NOT p_gates.crossed THEN
        v_takes := windlass.shares_1(p_limit, p_gates);
    ELSIF cardinality(p_gates.gates) = 1 THEN
        v_takes := ARRAY[(
            SELECT least(p_limit, min(n.room::bigint)) FROM jsonb_each_text(v_room) AS n(name, room))];
    ELSE
        SELECT t.takes, t.picks INTO v_takes, v_picks FROM windlass.takes_1(
            p_limit, v_room, p_gates.crossed, p_gates.rooms, p_gates.gates, p_gates.labels, p_gates.queues,
            p_gates.budgets) t;
    END IF;
    IF false = ANY (p_gates.keyed) THEN
        v_taken := windlass.take_rows_1(p_given, p_floor, p_worker, p_gates, v_takes, v_taken);
    END IF;
    IF p_gates.keys THEN
        v_taken := windlass.lock_keyed_1(p_gates, v_takes, v_picks, v_taken);
    END IF;
    RETURN v_taken;
END $$;

-- Gives leases. Always answers with at least one row; its first three columns are the time, the moment when time alone
-- may free another job and the instance of the store, and the others are a leased job, or nothing; the last two are for
-- programs of the thirteenth schema. The answer is in no order; whoever reads it puts it into that of rank and seq.
--
-- Those that never ran before and have no dedupe key get no row of their own: their leases are open in "grants".
--
-- Locks: the keys of due jobs (promotion) come first; then the rows of limited queues and of budgets, each sorted; then
-- the rows of "ready" with those of their keys, which are not waited for; then their jobs, which nobody else holds
-- unless he found them before they were ready.
-- Mirrors: Book::claim. Test: conformance (every claim).
CREATE FUNCTION windlass.claim_2(
    p_now bigint, p_request uuid, p_worker text, p_queues text[], p_kinds text[], p_limit integer,
    p_lease_ms bigint, p_promote_max integer, p_asked text, p_bytes_max bigint)
RETURNS TABLE (
    now_ms bigint, next_ms bigint, instance uuid, seq bigint, id uuid, kind text, queue text, payload text,
    priority smallint, key text, dedupe_key text, budgets text[], retry text, timeout_ms bigint, meta text, rank bigint,
    created_ms bigint, run_at_ms bigint, state smallint, attempt integer, crashes integer, fence bigint,
    retries integer, started_ms bigint, worker text, lease_ms bigint, expires_ms bigint, cancel_requested boolean,
    marked_ms bigint, ended_ms bigint, failure smallint, result text, progress text, history text, policy text,
    steps text, pack bigint, place integer)
LANGUAGE plpgsql
-- Without sorting, the head of a gate is read off its index, whatever the
-- statistics say about how few jobs are ready.
SET enable_sort = off SET enable_incremental_sort = off
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_next bigint;
    v_instance uuid;
    v_floor bigint;
    v_epoch windlass.epoch;
    v_gates windlass.gates;
    v_taken windlass.taken;
    v_numbers bigint[];
BEGIN
    SELECT e.instance, greatest(1, e.floor) INTO STRICT v_instance, v_floor FROM windlass.epoch e;
    v_epoch := windlass.pausing_1(v_now);
    -- Who asks again waits until the first is over, and is answered what that got.
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_request, 0));
    IF windlass.answered_1(p_request, p_asked) THEN
        RETURN QUERY SELECT v_now, NULL::bigint, v_instance, (r.job).*, r.place FROM windlass.recall_1(p_request) r;
        RETURN;
    END IF;
    SELECT greatest(v_now, e.now_ms), e.next_ms INTO v_now, v_next
      FROM windlass.enter_1(p_now, p_queues, p_promote_max) e;
    v_gates := windlass.gates_1(v_now, v_epoch, p_queues, p_kinds, p_lease_ms);
    IF v_epoch.number IS NOT NULL THEN
        SELECT least(v_next, min(p.until)) INTO v_next FROM unnest(p_queues) AS q(name)
         CROSS JOIN windlass.pause_until_1(v_epoch, q.name) AS p(until) WHERE p.until > v_now;
    END IF;
    IF v_gates.gates IS NOT NULL AND p_limit > 0 THEN
        v_taken := windlass.pick_1(p_now, v_now, p_worker, p_limit, v_floor, v_gates);
        v_now := v_taken.now_ms;
    END IF;
    IF v_taken.seqs IS NOT NULL THEN
        v_taken := windlass.lease_1(v_floor, p_worker, p_lease_ms, p_bytes_max, v_gates, v_taken);
    END IF;
    IF v_taken.spending IS NOT NULL THEN
        v_next := least(v_next, windlass.spendable_at_1(v_now, v_taken.spending));
    END IF;
    IF v_taken.seqs IS NULL THEN
        RETURN QUERY SELECT v_now, v_next, v_instance, j.*, NULL::integer
          FROM (VALUES (1)) AS always(one) LEFT JOIN windlass.jobs_1 j ON false;
        RETURN;
    END IF;
    v_numbers := windlass.remember_1(p_request, p_worker, p_asked, v_floor, v_gates, v_taken);
    -- The answer is written out here: a function that gave it would copy every payload once more.
    IF v_taken.known THEN
        RETURN QUERY SELECT v_now, v_next, v_instance, l.*, NULL::integer FROM windlass.leased_2(v_taken, v_numbers) l;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT v_now, v_next, v_instance, j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key,
           j.budgets, j.retry, j.timeout_ms, j.meta, j.rank, j.created_ms, j.run_at_ms, 1::smallint, 1, 0, u.fence, 0,
           v_now, p_worker, u.lease_ms, windlass.moment_1(v_now + u.lease_ms), false, NULL::bigint, NULL::bigint,
           NULL::smallint, NULL::text, NULL::text, NULL::text, v_gates.policies[u.at], NULL::text, v_numbers[u.at],
           NULL::integer
      FROM (SELECT u.*, v_gates.lease_ms[u.at] AS lease_ms
              FROM unnest(v_taken.seqs, v_taken.ats, v_taken.fences) AS u(seq, at, fence)) u
      JOIN windlass.jobs j ON j.seq = u.seq;
END $$;

-- Ends a claim whose jobs have more bytes of payloads and steps than one may give,
-- with how many of them fit, at least one; mirrors Job::carried_bytes.
CREATE FUNCTION windlass.bounded_1(p_seqs bigint[], p_bytes_max bigint, p_steps boolean) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_fit bigint;
    v_low bigint;
    v_high bigint;
    v_bytes bigint;
BEGIN
    SELECT min(u.seq), max(u.seq) INTO v_low, v_high FROM unnest(p_seqs) AS u(seq);
    -- Numbers that follow each other are read as one range, at a fraction of the cost.
    IF p_steps THEN
        NULL;
    ELSIF v_high - v_low + 1 = cardinality(p_seqs) THEN
        SELECT sum(octet_length(j.payload)) INTO v_bytes FROM windlass.jobs j WHERE j.seq BETWEEN v_low AND v_high;
    ELSE
        SELECT sum(octet_length(j.payload)) INTO v_bytes FROM windlass.jobs j WHERE j.seq = ANY (p_seqs);
    END IF;
    IF v_bytes <= p_bytes_max THEN
        RETURN;
    END IF;
    SELECT count(*) INTO v_fit FROM (
        SELECT sum(octet_length(j.payload) + CASE WHEN p_steps THEN coalesce((
                   SELECT sum(octet_length(s.output)) FROM windlass.steps s WHERE s.job_seq = j.seq), 0) ELSE 0 END)
                   OVER (ORDER BY j.rank, j.seq) AS bytes
          FROM unnest(p_seqs) AS u(seq) JOIN windlass.jobs j ON j.seq = u.seq) j
     WHERE j.bytes <= p_bytes_max;
    IF v_fit < cardinality(p_seqs) THEN
        RAISE EXCEPTION 'a claim has too many bytes' USING ERRCODE = 'WL004', DETAIL = greatest(1, v_fit)::text;
    END IF;
END $$;

-- Makes good for jobs that were counted as taken and were not.
CREATE FUNCTION windlass.untake_2(p_seqs bigint[], p_fences bigint[], p_numbers bigint[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_lost bigint[] := ARRAY(
        SELECT u.seq FROM unnest(p_seqs, p_fences) AS u(seq, fence)
         WHERE NOT EXISTS (SELECT FROM windlass.jobs_1 j WHERE j.seq = u.seq AND j.fence = u.fence AND j.state = 1));
    v_queues text[];
    v_keys text[];
BEGIN
    -- What this claim granted, and nothing that another did.
    UPDATE windlass.grants g SET given = g.given & ~l.bits, open = g.open & ~l.bits
      FROM (SELECT u.seq >> 6 AS block, bit_or(windlass.bit_1(u.seq)) AS bits FROM unnest(v_lost) AS u(seq)
             GROUP BY 1) l
     WHERE g.block = l.block AND g.number = ANY (p_numbers) AND g.given & ~l.bits <> 0;
    DELETE FROM windlass.grants g
     USING (SELECT u.seq >> 6 AS block, bit_or(windlass.bit_1(u.seq)) AS bits FROM unnest(v_lost) AS u(seq)
             GROUP BY 1) l
     WHERE g.block = l.block AND g.number = ANY (p_numbers) AND g.given & ~l.bits = 0;
    WITH lost AS (
        SELECT j.queue, j.budgets FROM unnest(v_lost) AS l(seq) JOIN windlass.jobs j ON j.seq = l.seq
    )
    INSERT INTO windlass.tally (what, name, delta, queued)
    SELECT 0, l.queue, -count(*), count(*) FROM lost l GROUP BY l.queue
    UNION ALL
    SELECT 1, b.name, -count(*), 0 FROM lost l CROSS JOIN unnest(l.budgets) AS b(name) GROUP BY b.name;
    WITH freed AS (
        UPDATE windlass.keys k SET holder = NULL
          FROM unnest(v_lost) AS l(seq) JOIN windlass.jobs j ON j.seq = l.seq
         WHERE k.queue = j.queue AND k.key = j.key AND k.holder = l.seq
        RETURNING k.queue, k.key
    )
    SELECT array_agg(f.queue), array_agg(f.key) INTO v_queues, v_keys FROM freed f;
    IF v_keys IS NOT NULL THEN
        PERFORM windlass.expose_1(v_queues, v_keys, true, NULL);
    END IF;
END $$;
