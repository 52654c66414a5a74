-- What of the fourteenth schema only its claims call, as it has shipped: it is there where that schema was brought up to
-- date, until the one after the fifteenth takes it away. For tests.

-- The arithmetic of policy::budget: strict sliding windows counted in buckets.

CREATE FUNCTION windlass.spent_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_now bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT least(coalesce(sum((e ->> 1)::bigint), 0), 4294967295)::bigint
      FROM jsonb_array_elements(p_window) e
     WHERE (e ->> 0)::bigint >= p_now / p_bucket_ms - p_buckets
$$;

CREATE FUNCTION windlass.add_spent_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_amount bigint,
    p_now bigint)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_bucket bigint := greatest(p_now / p_bucket_ms, coalesce((p_window -> -1 ->> 0)::bigint, 0));
BEGIN
    RETURN (
        SELECT jsonb_agg(jsonb_build_array(b.bucket, least(b.amount, 4294967295)) ORDER BY b.bucket)
          FROM (SELECT x.bucket, sum(x.amount)::bigint AS amount
                  FROM (SELECT (e ->> 0)::bigint AS bucket, (e ->> 1)::bigint AS amount
                          FROM jsonb_array_elements(p_window) e
                        UNION ALL SELECT v_bucket, p_amount) x
                 WHERE x.bucket >= v_bucket - p_buckets
                 GROUP BY x.bucket) b);
END $$;

CREATE FUNCTION windlass.window_free_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_max bigint,
    p_from bigint)
RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_moment bigint := p_from;
    v_bucket bigint;
BEGIN
    IF p_max < 1 THEN
        RETURN windlass.time_max_1();
    END IF;
    WHILE windlass.spent_1(p_window, p_bucket_ms, p_buckets, v_moment) + 1 > p_max LOOP
        SELECT min((e ->> 0)::bigint) INTO v_bucket FROM jsonb_array_elements(p_window) e
         WHERE (e ->> 0)::bigint >= v_moment / p_bucket_ms - p_buckets;
        v_moment := (v_bucket + p_buckets + 1) * p_bucket_ms;
    END LOOP;
    RETURN v_moment;
END $$;

-- The windows of a budget, with their bounds and shapes; mirrors Budget::windows.
CREATE FUNCTION windlass.windows_1(b windlass.budgets)
RETURNS TABLE (bound bigint, spent jsonb, bucket_ms bigint, buckets bigint) LANGUAGE sql IMMUTABLE AS $$
    VALUES (b.per_second, b.second_window, 20::bigint, 50::bigint),
           (b.per_minute, b.minute_window, 1000, 60),
           (b.per_day, b.day_window, 300000, 288)
$$;

-- How much of a budget may be spent now, slots aside; mirrors Budget::spendable.
CREATE FUNCTION windlass.spendable_1(b windlass.budgets, p_now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN b.cooling_ms > p_now THEN 0 ELSE (
        SELECT greatest(0, least(4294967295, min(w.bound - windlass.spent_1(w.spent, w.bucket_ms, w.buckets, p_now))))
          FROM windlass.windows_1(b) w WHERE w.bound IS NOT NULL) END
$$;

-- When one more may be spent; mirrors Budget::free_at.
CREATE FUNCTION windlass.budget_free_1(b windlass.budgets, p_now bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_moment bigint := greatest(p_now, coalesce(b.cooling_ms, p_now));
    w record;
BEGIN
    FOR w IN SELECT * FROM windlass.windows_1(b) x WHERE x.bound IS NOT NULL ORDER BY x.bucket_ms LOOP
        v_moment := greatest(v_moment, windlass.window_free_1(w.spent, w.bucket_ms, w.buckets, w.bound, v_moment));
    END LOOP;
    RETURN least(v_moment, windlass.time_max_1());
END $$;

-- The windows with so much more spent, where there is a bound and an amount; mirrors Budget::spend and Budget::fill.
CREATE FUNCTION windlass.spend_1(b windlass.budgets, p_second bigint, p_minute bigint, p_day bigint, p_now bigint)
RETURNS TABLE (writes bigint, second_window jsonb, minute_window jsonb, day_window jsonb)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_amounts bigint[] := ARRAY[p_second, p_minute, p_day];
    v_windows jsonb[] := ARRAY(
        SELECT CASE WHEN w.bound IS NULL OR v_amounts[w.at] IS NULL THEN w.spent
                    ELSE windlass.add_spent_1(w.spent, w.bucket_ms, w.buckets, v_amounts[w.at], p_now) END
          FROM windlass.windows_1(b) WITH ORDINALITY AS w(bound, spent, bucket_ms, buckets, at) ORDER BY w.at);
BEGIN
    RETURN QUERY SELECT b.writes + 1, v_windows[1], v_windows[2], v_windows[3];
END $$;

-- The begin of the newest bucket of a budget; nothing when nothing was spent.
CREATE FUNCTION windlass.spent_until_1(b windlass.budgets) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT max((w.spent -> -1 ->> 0)::bigint * w.bucket_ms) FROM windlass.windows_1(b) w
$$;

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

-- Remembers what a claim gave, counts it and tells of it. Answers with the numbers of the grants, by gate. Plans as its
-- caller says. Mirrors: Book::claim (what is remembered of a request). Test: conformance (requests asked again).
CREATE FUNCTION windlass.remember_1(
    p_request uuid, p_worker text, p_asked text, p_floor bigint, p_gates windlass.gates, p_taken windlass.taken)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_numbers bigint[];
    -- Variables of their own: an entry of one is found at once, and one of a row is not.
    v_queues text[] := p_gates.queues;
    v_labels text[] := p_gates.labels;
    v_lease_ms bigint[] := p_gates.lease_ms;
BEGIN
    IF cardinality(v_queues) = 1 THEN
        v_numbers := ARRAY[nextval('windlass.claim_number')];
    ELSE
        -- Nothing for a gate that gave nothing.
        v_numbers := ARRAY(SELECT CASE WHEN g.given THEN nextval('windlass.claim_number') END
                             FROM (SELECT g.at, g.at IN (SELECT u.at FROM unnest(p_taken.ats) AS u(at)) AS given
                                     FROM generate_series(1, cardinality(v_queues)) AS g(at)) g ORDER BY g.at);
    END IF;
    WITH given AS (
        INSERT INTO windlass.grants (block, number, given, open, due_ms, started_ms, lease_ms, fence, worker, label)
        SELECT b.block, v_numbers[b.at], b.given, b.given, windlass.moment_1(p_taken.now_ms + v_lease_ms[b.at]),
               p_taken.now_ms, v_lease_ms[b.at], p_floor, p_worker, v_labels[b.at]
          FROM (SELECT u.seq >> 6 AS block, u.at, bit_or(windlass.bit_1(u.seq)) AS given
                  FROM unnest(p_taken.seqs, p_taken.ats) AS u(seq, at) GROUP BY 1, 2) b
        RETURNING block, number
    )
    INSERT INTO windlass.requests (request_id, at_ms, asked, blocks, numbers)
    SELECT p_request, p_taken.now_ms, p_asked, array_agg(g.block), array_agg(g.number) FROM given g;
    IF p_taken.apart THEN
        UPDATE windlass.grants g SET open = g.open & ~b.bits
          FROM (SELECT r.seq >> 6 AS block, u.at, bit_or(windlass.bit_1(r.seq)) AS bits
                  FROM unnest(p_taken.seqs, p_taken.ats) AS u(seq, at) JOIN windlass.runs r ON r.seq = u.seq
                 GROUP BY 1, 2) b
         WHERE g.block = b.block AND g.number = v_numbers[b.at];
    END IF;
    IF cardinality(v_queues) = 1 THEN
        WITH counted AS (
            INSERT INTO windlass.tally (what, name, delta, queued)
            VALUES (0, v_queues[1], cardinality(p_taken.seqs), -cardinality(p_taken.seqs))
        )
        INSERT INTO windlass.events (at_ms, what, queue, jobs)
        VALUES (p_taken.now_ms, 1, v_queues[1], p_taken.ids);
    ELSE
        INSERT INTO windlass.tally (what, name, delta, queued)
        SELECT 0, u.queue, count(*), -count(*)
          FROM (SELECT v_queues[u.at] AS queue FROM unnest(p_taken.ats) AS u(at)) u GROUP BY u.queue;
        PERFORM windlass.note_1(
            p_taken.now_ms, 1, ARRAY(SELECT v_queues[u.at] FROM unnest(p_taken.ats) AS u(at)), p_taken.ids);
    END IF;
    RETURN v_numbers;
END $$;
