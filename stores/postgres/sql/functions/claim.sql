-- When the first of the delayed jobs of these queues is due.
CREATE FUNCTION windlass.next_due_1(p_queues text[]) RETURNS bigint LANGUAGE sql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT min(d.run_at_ms) FROM unnest(p_queues) AS q(name) CROSS JOIN LATERAL (
        SELECT d.run_at_ms FROM windlass.delayed d WHERE d.queue = q.name ORDER BY d.queue, d.run_at_ms, d.seq LIMIT 1) d
$$;

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
    SELECT j.gate, j.rank, j.seq, j.id, j.fence, j.run_at_ms, j.known, j.deduped, j.label FROM jobs j WHERE j.key IS NULL;
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

-- Remembers what a claim gave at several gates, each under a number of its own, and counts it. Answers with the
-- numbers by gate, nothing for one that gave nothing.
CREATE FUNCTION windlass.remember_parts_1(
    p_now bigint, p_request uuid, p_worker text, p_asked text, p_floor bigint,
    p_seqs bigint[], p_ats bigint[], p_fences bigint[], p_apart boolean, p_of text[], p_labels text[], p_lease_ms bigint[])
RETURNS bigint[]
LANGUAGE plpgsql
SET enable_sort = off SET enable_incremental_sort = off
{planned} AS $$
DECLARE
    v_first bigint := (SELECT min(u.at) FROM unnest(p_ats) AS u(at));
    v_numbers bigint[] := ARRAY(
        SELECT CASE WHEN u.given THEN nextval('windlass.claim_number') END
          FROM (SELECT g.at, g.at IN (SELECT u.at FROM unnest(p_ats) AS u(at)) AS given
                  FROM generate_series(1, cardinality(p_of)) AS g(at)) u ORDER BY u.at);
BEGIN
    INSERT INTO windlass.tally (what, name, delta, queued)
    SELECT 0, u.queue, count(*), -count(*) FROM (SELECT p_of[u.at] AS queue FROM unnest(p_ats) AS u(at)) u
     GROUP BY u.queue;
    INSERT INTO windlass.claims (number, request_id, part, at_ms, due_ms, seqs, fences, open, whole, low, high,
                                 started_ms, lease_ms, worker, label, asked, fence)
    SELECT v_numbers[u.at], p_request, CASE WHEN u.at = v_first THEN 1 END,
           p_now, windlass.moment_1(p_now + p_lease_ms[u.at]), u.seqs, u.fences, u.open,
           u.open = cardinality(u.seqs), u.low, u.high, p_now, p_lease_ms[u.at], p_worker, p_labels[u.at], p_asked, p_floor
      FROM (SELECT u.at, array_agg(u.seq ORDER BY u.ord) AS seqs, array_agg(u.fence ORDER BY u.ord) AS fences,
                   min(u.seq) AS low, max(u.seq) AS high,
                   count(*) FILTER (WHERE NOT p_apart OR NOT EXISTS (SELECT FROM windlass.runs r WHERE r.seq = u.seq)) AS open
              FROM unnest(p_seqs, p_ats, p_fences) WITH ORDINALITY AS u(seq, at, fence, ord) GROUP BY u.at) u;
    RETURN v_numbers;
END $$;

-- Gives leases. Always answers with at least one row; its first three columns are the time, the moment when time alone
-- may free another job and the instance of the store, and the others are a leased job, or nothing; the last two are the
-- row of "claims" and, unless the jobs of that row stand in it in the order of rank and seq, the place in it.
--
-- Those that never ran before and have no dedupe key get no row of their own:
-- their leases are part of what "claims" says.
--
-- Locks: the keys of due jobs (promotion) come first; then the rows of limited
-- queues and of budgets, each sorted; then the rows of "ready" with those of their
-- keys, which are not waited for; then their jobs, which nobody else holds unless
-- he found them before they were ready.
CREATE FUNCTION windlass.claim_2(
    p_now bigint, p_request uuid, p_worker text, p_queues text[], p_kinds text[], p_limit integer,
    p_lease_ms bigint, p_promote_max integer, p_asked text, p_bytes_max bigint)
RETURNS TABLE (
    now_ms bigint, next_ms bigint, instance uuid, seq bigint, id uuid, kind text, queue text, payload text, priority smallint,
    key text, dedupe_key text, budgets text[], retry text, timeout_ms bigint, meta text, rank bigint,
    created_ms bigint, run_at_ms bigint, state smallint, attempt integer, crashes integer, fence bigint,
    retries integer, started_ms bigint, worker text, lease_ms bigint, expires_ms bigint, cancel_requested boolean,
    marked_ms bigint, ended_ms bigint, failure smallint, result text, progress text, history text, policy text, steps text, pack bigint,
    place integer)
LANGUAGE plpgsql
-- Without sorting, the head of a gate is read off its index, whatever the
-- statistics say about how few jobs are ready.
SET enable_sort = off SET enable_incremental_sort = off
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_next bigint;
    v_spots tid[];
    v_seqs bigint[];
    v_ranks bigint[];
    v_ats bigint[];
    v_ids uuid[];
    v_fences bigint[];
    v_known boolean;
    v_apart boolean;
    -- The rooms of each kind, unless those of whole queues are fewer.
    v_kinds text[] := CASE WHEN cardinality(p_queues) * cardinality(p_kinds) <= 256 THEN p_kinds END;
    v_rooms bigint[];
    v_gates bigint[];
    v_labels text[];
    v_sizes bigint[];
    v_left bigint[];
    v_cuts tid[];
    v_cut_takes bigint[];
    v_waits integer := 0;
    v_of text[];
    v_budgets text[];
    v_lease_ms bigint[];
    v_policies text[];
    v_lease bigint;
    v_expires bigint;
    v_policy text;
    v_keyed boolean[];
    v_takes bigint[];
    v_limited text[];
    v_spending text[];
    v_spends boolean;
    v_keys boolean;
    v_crossed boolean;
    v_room jsonb := '{}';
    v_picks bigint[];
    v_count bigint;
    v_open bigint;
    v_numbers bigint[];
    v_asked text;
    v_epoch windlass.epoch;
    v_instance uuid;
    v_floor bigint;
BEGIN
    SELECT e.instance, greatest(1, e.floor) INTO STRICT v_instance, v_floor FROM windlass.epoch e;
    v_epoch := windlass.pausing_1(v_now);
    -- Who asks again waits until the first is over, and is answered what that got.
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_request, 0));
    SELECT c.asked INTO v_asked FROM windlass.claims c WHERE c.request_id = p_request AND c.part = 1;
    IF FOUND THEN
        IF v_asked IS DISTINCT FROM p_asked THEN
            RAISE EXCEPTION 'claim % was asked by another', p_request USING ERRCODE = 'WL003', DETAIL = p_request::text;
        END IF;
        RETURN QUERY
        SELECT v_now, NULL::bigint, v_instance, j.*, l.place::integer
          FROM windlass.claims c
         CROSS JOIN unnest(c.seqs, c.fences) WITH ORDINALITY AS l(seq, fence, place)
          JOIN windlass.jobs_1 j ON j.seq = l.seq AND j.state = 1 AND j.fence = l.fence
         WHERE c.request_id = p_request;
        RETURN;
    END IF;
    -- Who asked the same at the same time may have been waited for, and so may the keys of jobs that are due: the time
    -- of a claim is that of its last wait.
    v_now := greatest(v_now, windlass.clock_1(p_now));
    v_next := windlass.next_due_1(p_queues);
    IF v_next <= v_now THEN
        PERFORM windlass.promote_1(v_now, p_promote_max, p_queues);
        v_now := greatest(v_now, windlass.clock_1(p_now));
        v_next := windlass.next_due_1(p_queues);
    END IF;
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
            SELECT h.room, h.gate, h.label FROM windlass.ready h WHERE (h.room, h.gate) > (g.room, g.gate) AND h.room <= g.high
             ORDER BY h.room, h.gate, h.rank, h.seq LIMIT 1) n
    ), gates AS (
        SELECT h.room, h.gate, h.label, split_part(h.label, chr(31), 1) AS queue, split_part(h.label, chr(31), 2) AS kind,
               split_part(h.label, chr(31), 3) = 'k' AS keyed,
               array_to_string((string_to_array(h.label, chr(31)))[4:], chr(31)) AS names,
               -- How many jobs a row seems to have: the first may be what a claim has left.
               (SELECT 1 + coalesce(max(cardinality(first.more_seqs)), 0) FROM (
                    SELECT r.more_seqs FROM windlass.ready r WHERE r.room = h.room AND r.gate = h.gate
                     ORDER BY r.rank, r.seq LIMIT 2) first) AS jobs
          FROM heads h
    )
    SELECT array_agg(g.room), array_agg(g.gate), array_agg(g.label), array_agg(g.jobs), array_agg(g.queue), array_agg(g.names),
           array_agg(coalesce(p_lease_ms, q.lease_ms, 30000)), array_agg(q.policy), array_agg(g.keyed),
           array_agg(g.queue) FILTER (WHERE q.limit_jobs IS NOT NULL), bool_or(g.names <> ''), bool_or(g.keyed),
           -- Whether a key may have ready jobs in more than one gate.
           count(*) FILTER (WHERE g.keyed) > count(DISTINCT g.queue) FILTER (WHERE g.keyed)
      INTO v_rooms, v_gates, v_labels, v_sizes, v_of, v_budgets, v_lease_ms, v_policies, v_keyed, v_limited, v_spends, v_keys, v_crossed
      FROM gates g LEFT JOIN windlass.queues q ON q.name = g.queue
     WHERE g.queue = ANY (p_queues) AND (p_kinds IS NULL OR g.kind = ANY (p_kinds)) AND q.paused IS NOT TRUE
       AND (v_epoch.number IS NULL OR windlass.held_until_1(v_epoch, v_now, g.gate, g.label, q.limit_jobs) IS NULL);
    IF v_epoch.number IS NOT NULL THEN
        SELECT least(v_next, min(p.until)) INTO v_next
          FROM unnest(p_queues) AS q(name) CROSS JOIN windlass.pause_until_1(v_epoch, q.name) AS p(until) WHERE p.until > v_now;
    END IF;

    IF v_gates IS NOT NULL AND p_limit > 0 THEN
        IF v_limited IS NOT NULL THEN
            PERFORM FROM windlass.queues q WHERE q.name = ANY (v_limited) ORDER BY q.name FOR UPDATE;
            SELECT jsonb_object_agg('q' || q.name, greatest(0, q.limit_jobs - windlass.running_1(0, q.name))) INTO v_room
              FROM windlass.queues q WHERE q.name = ANY (v_limited) AND q.limit_jobs IS NOT NULL;
            v_room := coalesce(v_room, '{}');
        END IF;
        IF v_spends THEN
            SELECT array_agg(DISTINCT b.name) INTO v_spending
              FROM unnest(v_budgets) AS g(names) CROSS JOIN unnest(string_to_array(g.names, chr(31))) AS b(name)
             WHERE g.names <> '';
            PERFORM FROM windlass.budgets b WHERE b.name = ANY (v_spending) ORDER BY b.name FOR UPDATE;
            SELECT v_room || coalesce(jsonb_object_agg('b' || b.name, greatest(0, least(
                       windlass.spendable_1(b, v_now), b.slots - windlass.running_1(1, b.name)))), '{}')
              INTO v_room FROM windlass.budgets b WHERE b.name = ANY (v_spending);
        END IF;
        IF v_limited IS NOT NULL OR v_spends THEN
            -- These locks may have been waited for. The leases begin after that, and after the end of everything
            -- that is counted as ended.
            v_now := greatest(v_now, windlass.begin_1(p_now), (
                SELECT max(windlass.spent_until_1(b)) FROM windlass.budgets b WHERE b.name = ANY (v_spending)));
        END IF;

        -- How many each gate gives.
        IF cardinality(v_gates) = 1 AND v_room = '{}' THEN
            v_takes := ARRAY[p_limit];
        ELSIF cardinality(v_gates) = 1 THEN
            v_takes := ARRAY[(SELECT least(p_limit, min(n.room::bigint)) FROM jsonb_each_text(v_room) AS n(name, room))];
        ELSIF v_room <> '{}' OR v_crossed THEN
            SELECT t.takes, t.picks INTO v_takes, v_picks
              FROM windlass.takes_1(p_limit, v_room, v_crossed, v_rooms, v_gates, v_labels, v_of, v_budgets) t;
        ELSE
            SELECT array_agg(coalesce(t.takes, 0) ORDER BY u.at) INTO v_takes
              FROM generate_series(1, cardinality(v_gates)) AS u(at)
              LEFT JOIN (
                   SELECT h.at, count(*) AS takes FROM (
                       SELECT g.at FROM unnest(v_rooms, v_gates, v_labels) WITH ORDINALITY AS g(room, gate, label, at)
                        CROSS JOIN LATERAL (
                              SELECT h.rank, u.seq FROM windlass.ready h CROSS JOIN unnest(h.seq || h.more_seqs) AS u(seq)
                               WHERE h.room = g.room AND h.gate = g.gate AND h.label = g.label
                               ORDER BY h.rank, h.seq LIMIT p_limit) head
                        ORDER BY head.rank, head.seq LIMIT p_limit) h
                    GROUP BY h.at) t ON t.at = u.at;
        END IF;

        IF false = ANY (v_keyed) THEN
            -- As many rows as seem to be needed are locked, then those that it takes are
            -- taken, and so on until there are enough jobs or no more rows.
            v_left := v_takes;
            IF v_keys THEN
                v_left := ARRAY(SELECT CASE WHEN u.keyed THEN 0 ELSE u.takes END
                                  FROM unnest(v_takes, v_keyed) WITH ORDINALITY AS u(takes, keyed, at) ORDER BY u.at);
            END IF;
            LOOP
                SELECT array_agg(t.spot), array_agg(t.spot) FILTER (WHERE t.before + t.jobs > t.left_over),
                       array_agg(t.left_over - t.before) FILTER (WHERE t.before + t.jobs > t.left_over)
                  INTO v_spots, v_cuts, v_cut_takes
                  FROM (SELECT g.left_over, t.spot, t.jobs,
                               sum(t.jobs) OVER (PARTITION BY g.at ORDER BY t.rank, t.seq)::bigint - t.jobs AS before
                          FROM unnest(v_rooms, v_gates, v_labels, v_left, v_sizes) WITH ORDINALITY
                               AS g(room, gate, label, left_over, size, at)
                         CROSS JOIN LATERAL (
                               SELECT h.ctid AS spot, h.rank, h.seq, 1 + coalesce(cardinality(h.more_seqs), 0) AS jobs
                                 FROM windlass.ready h
                                WHERE h.room = g.room AND h.gate = g.gate AND h.label = g.label
                                ORDER BY h.rank, h.seq LIMIT (g.left_over + g.size - 1) / g.size FOR UPDATE SKIP LOCKED) t
                         WHERE g.left_over > 0) t
                 WHERE t.before < t.left_over;
                IF v_spots IS NULL THEN
                    EXIT WHEN v_waits = 10 OR v_seqs IS NOT NULL OR NOT EXISTS (
                        SELECT FROM unnest(v_left, v_sizes) AS g(left_over, size) WHERE g.left_over > 0 AND g.size > 1);
                    -- Others hold the rows that there are, and will leave jobs in them.
                    PERFORM FROM unnest(v_rooms, v_gates) AS g(room, gate) CROSS JOIN LATERAL (
                        SELECT FROM windlass.ready h WHERE h.room = g.room AND h.gate = g.gate AND h.more_seqs IS NOT NULL
                         ORDER BY h.gate, h.rank, h.seq LIMIT 1 FOR UPDATE) h LIMIT 1;
                    v_waits := v_waits + 1;
                    v_now := greatest(v_now, windlass.begin_1(p_now));
                    CONTINUE;
                END IF;
                WITH gone AS (
                    DELETE FROM windlass.ready h WHERE h.ctid = ANY (v_spots)
                    RETURNING array_position(v_gates, h.gate) AS at,
                              coalesce(v_cut_takes[array_position(v_cuts, h.ctid)], 1 + coalesce(cardinality(h.more_seqs), 0))::integer AS takes,
                              h.*
                ), rest AS (
                    INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, more_seqs, more_ids)
                    SELECT g.gate, g.rank, g.more_seqs[g.takes], g.more_ids[g.takes], g.fence, g.run_at_ms, g.known, g.deduped, g.label,
                           nullif(g.more_seqs[g.takes + 1:], '{}'), nullif(g.more_ids[g.takes + 1:], '{}')
                      FROM gone g WHERE g.takes <= cardinality(g.more_seqs)
                ), begun AS (
                    INSERT INTO windlass.runs (seq, fence, run_at_ms, started_ms, lease_ms, expires_ms, attempt, state, deduped, label, worker)
                    SELECT u.seq, greatest(g.fence, v_floor), g.run_at_ms, v_now, v_lease_ms[g.at],
                           windlass.moment_1(v_now + v_lease_ms[g.at]), 1, 1, true, g.label, p_worker
                      FROM gone g CROSS JOIN LATERAL unnest(g.seq || g.more_seqs[:g.takes - 1]) AS u(seq)
                     WHERE g.deduped AND NOT g.known
                )
                SELECT v_seqs || array_agg(u.seq), v_ranks || array_agg(g.rank), v_ats || array_agg(g.at), v_ids || array_agg(u.id),
                       v_fences || array_agg(g.fence), coalesce(v_known, false) OR bool_or(g.known),
                       coalesce(v_apart, false) OR bool_or(g.known OR g.deduped)
                  INTO v_seqs, v_ranks, v_ats, v_ids, v_fences, v_known, v_apart
                  FROM (SELECT g.* FROM gone g ORDER BY g.rank, g.seq) g
                 CROSS JOIN LATERAL unnest(g.seq || g.more_seqs[:g.takes - 1], g.id || g.more_ids[:g.takes - 1]) AS u(seq, id);
                IF cardinality(v_gates) = 1 THEN
                    -- Fewer rows than were asked for: there are no more.
                    EXIT WHEN cardinality(v_spots) < (v_left[1] + v_sizes[1] - 1) / v_sizes[1];
                    v_left[1] := v_takes[1] - cardinality(v_seqs);
                ELSE
                    v_left := ARRAY(
                        SELECT CASE WHEN g.keyed THEN 0 ELSE g.takes - (SELECT count(*) FROM unnest(v_ats) AS u(at) WHERE u.at = g.at) END
                          FROM unnest(v_takes, v_keyed) WITH ORDINALITY AS g(takes, keyed, at) ORDER BY g.at);
                END IF;
                EXIT WHEN 0 >= ALL (v_left);
                v_sizes := array_fill(greatest(1, cardinality(v_seqs) / cardinality(v_spots))::bigint, ARRAY[cardinality(v_gates)]);
            END LOOP;
            v_spots := NULL;
        END IF;
        IF v_keys THEN
            SELECT array_agg(t.spot), v_seqs || array_agg(t.seq), v_ranks || array_agg(t.rank), v_ats || array_agg(g.at),
                   v_ids || array_agg(t.id), v_fences || array_agg(t.fence), coalesce(v_known, false) OR bool_or(t.known),
                   coalesce(v_apart, false) OR bool_or(t.known OR t.deduped)
              INTO v_spots, v_seqs, v_ranks, v_ats, v_ids, v_fences, v_known, v_apart
              FROM unnest(v_rooms, v_gates, v_takes, v_labels, v_of, v_keyed) WITH ORDINALITY
                   AS g(room, gate, takes, label, queue, keyed, at)
             CROSS JOIN LATERAL (
                   SELECT h.ctid AS spot, h.seq, h.rank, h.id, h.fence, h.known, h.deduped FROM windlass.ready h
                     JOIN windlass.keys k ON k.queue = g.queue AND k.key = h.key AND k.holder IS NULL
                    WHERE h.room = g.room AND h.gate = g.gate AND h.label = g.label
                      AND (v_picks IS NULL OR h.seq = ANY (v_picks))
                    ORDER BY h.rank, h.seq LIMIT g.takes FOR UPDATE SKIP LOCKED) t
             WHERE g.takes > 0 AND g.keyed;
            IF cardinality(v_gates) > 1 THEN
                SELECT array_agg(u.seq), array_agg(u.at), array_agg(u.id), array_agg(u.fence)
                  INTO v_seqs, v_ats, v_ids, v_fences
                  FROM (SELECT u.* FROM unnest(v_seqs, v_ranks, v_ats, v_ids, v_fences) AS u(seq, rank, at, id, fence)
                         ORDER BY u.rank, u.seq) u;
            END IF;
        END IF;
    END IF;

    -- Who can have more than fits has it counted; a payload has a megabyte at most.
    IF cardinality(v_seqs) > 1 AND (v_known OR cardinality(v_seqs) > p_bytes_max / 1048576) THEN
        PERFORM windlass.bounded_1(v_seqs, p_bytes_max, v_known);
    END IF;
    IF v_seqs IS NOT NULL THEN
        IF v_spots IS NOT NULL THEN
            -- The keys are taken: their ready jobs of other gates wait again.
            WITH gone AS (
                DELETE FROM windlass.ready h WHERE h.ctid = ANY (v_spots)
                RETURNING array_position(v_gates, h.gate) AS at, h.seq, h.fence, h.run_at_ms, h.known, h.deduped, h.label, h.key
            ), begun AS (
                INSERT INTO windlass.runs (seq, fence, run_at_ms, started_ms, lease_ms, expires_ms, attempt, state, deduped, label, key, worker)
                SELECT g.seq, greatest(g.fence, v_floor), g.run_at_ms, v_now, v_lease_ms[g.at],
                       windlass.moment_1(v_now + v_lease_ms[g.at]), 1, 1, true, g.label, g.key, p_worker
                  FROM gone g WHERE g.deduped AND NOT g.known
            ), held AS (
                UPDATE windlass.keys k SET holder = g.seq
                  FROM (SELECT g.seq, g.key, v_of[g.at] AS queue FROM gone g) g
                 WHERE k.queue = g.queue AND k.key = g.key
                RETURNING k.queue, k.key, k.holder
            ), behind AS (
                DELETE FROM windlass.ready h USING held k
                 WHERE h.key = k.key AND h.label >= k.queue || chr(31) AND h.label < k.queue || chr(32) AND h.seq <> k.holder
                RETURNING k.queue, h.*
            )
            INSERT INTO windlass.waiting (queue, key, gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
            SELECT b.queue, b.key, b.gate, b.rank, b.seq, b.id, b.fence, b.run_at_ms, b.known, b.deduped, b.label FROM behind b;
        END IF;
        IF v_known THEN
            UPDATE windlass.runs r
               SET state = 1, fence = greatest(s.fence, v_floor), attempt = r.attempt + 1, started_ms = v_now, worker = p_worker,
                   lease_ms = s.lease_ms, cancel_requested = false, expires_ms = windlass.moment_1(v_now + s.lease_ms)
              FROM (SELECT u.seq, u.fence, u.fence - 1 AS before, v_lease_ms[u.at] AS lease_ms, 0 AS queued
                      FROM unnest(v_seqs, v_ats, v_fences) AS u(seq, at, fence)) s
             WHERE r.seq = s.seq AND r.state = s.queued AND r.fence = s.before;
        END IF;
        IF v_floor > 1 THEN
            v_fences := ARRAY(SELECT greatest(u.fence, v_floor) FROM unnest(v_fences) WITH ORDINALITY AS u(fence, ord) ORDER BY u.ord);
        END IF;
        IF p_lease_ms IS NOT NULL THEN
            PERFORM windlass.note_lease_1(v_now, p_lease_ms, ARRAY(SELECT DISTINCT v_of[u.at] FROM unnest(v_ats) AS u(at)));
        END IF;
        IF v_spends THEN
            PERFORM windlass.spend_claimed_1(v_now, v_ats, v_budgets);
        END IF;
    END IF;

    IF v_spends THEN
        SELECT least(v_next, min(CASE WHEN b.cooling_ms > v_now THEN b.cooling_ms ELSE windlass.budget_free_1(b, v_now) END))
          INTO v_next FROM windlass.budgets b
         WHERE b.name = ANY (v_spending) AND windlass.spendable_1(b, v_now) = 0;
    END IF;

    IF v_seqs IS NULL THEN
        RETURN QUERY
        SELECT v_now, v_next, v_instance, j.*, NULL::integer FROM (VALUES (1)) AS always(one) LEFT JOIN windlass.jobs_1 j ON false;
        RETURN;
    END IF;
    IF cardinality(v_gates) = 1 THEN
        v_open := CASE WHEN NOT v_apart THEN cardinality(v_seqs) ELSE (
            SELECT count(*) FROM unnest(v_seqs) AS u(seq) WHERE NOT EXISTS (SELECT FROM windlass.runs r WHERE r.seq = u.seq)) END;
        v_numbers := ARRAY[nextval('windlass.claim_number')];
        WITH counted AS (
            INSERT INTO windlass.tally (what, name, delta, queued)
            VALUES (0, v_of[1], cardinality(v_seqs), -cardinality(v_seqs))
        ), remembered AS (
            INSERT INTO windlass.claims (number, request_id, part, at_ms, due_ms, seqs, fences, open, whole, low, high,
                                         started_ms, lease_ms, worker, label, asked, fence)
            SELECT v_numbers[1], p_request, 1, v_now, windlass.moment_1(v_now + v_lease_ms[1]), v_seqs, v_fences, v_open,
                   v_open = cardinality(v_seqs), min(u.seq), max(u.seq), v_now, v_lease_ms[1], p_worker, v_labels[1], p_asked, v_floor
              FROM unnest(v_seqs) AS u(seq)
        )
        INSERT INTO windlass.events (at_ms, what, queue, jobs) VALUES (v_now, 1, v_of[1], v_ids);
    ELSE
        v_numbers := windlass.remember_parts_1(
            v_now, p_request, p_worker, p_asked, v_floor, v_seqs, v_ats, v_fences, v_apart, v_of, v_labels, v_lease_ms);
        PERFORM windlass.note_1(v_now, 1, ARRAY(SELECT v_of[u.at] FROM unnest(v_ats) AS u(at)), v_ids);
    END IF;
    -- The answer is in no order; whoever reads it puts it into that of rank and seq.
    IF NOT v_known THEN
        IF cardinality(v_gates) = 1 THEN
            -- What is the same for all is taken out of its array once.
            v_lease := v_lease_ms[1];
            v_expires := windlass.moment_1(v_now + v_lease);
            v_policy := v_policies[1];
        END IF;
        RETURN QUERY
        SELECT v_now, v_next, v_instance, j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key, j.budgets, j.retry,
               j.timeout_ms, j.meta, j.rank, j.created_ms, j.run_at_ms, 1::smallint, 1, 0, u.fence, 0, v_now, p_worker,
               coalesce(v_lease, v_lease_ms[u.at]), coalesce(v_expires, windlass.moment_1(v_now + v_lease_ms[u.at])), false,
               NULL::bigint, NULL::bigint, NULL::smallint, NULL::text, NULL::text, NULL::text,
               CASE WHEN v_lease IS NULL THEN v_policies[u.at] ELSE v_policy END, NULL::text,
               v_numbers[u.at], NULL::integer
          FROM unnest(v_seqs, v_ats, v_fences) AS u(seq, at, fence)
          JOIN windlass.jobs j ON j.seq = u.seq;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT v_now, v_next, v_instance, j.*, u.place
      FROM (SELECT u.seq, u.fence, row_number() OVER (PARTITION BY u.at ORDER BY u.ord)::integer AS place, 1 AS running
              FROM unnest(v_seqs, v_ats, v_fences) WITH ORDINALITY AS u(seq, at, fence, ord)) u
      JOIN windlass.jobs_1 j ON j.seq = u.seq AND j.fence = u.fence AND j.state = u.running;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> cardinality(v_seqs) THEN
        -- Somebody who found a job before it was ready has moved it meanwhile.
        PERFORM windlass.untake_1(v_seqs, v_fences);
    END IF;
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
CREATE FUNCTION windlass.untake_1(p_seqs bigint[], p_fences bigint[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_lost bigint[] := ARRAY(
        SELECT u.seq FROM unnest(p_seqs, p_fences) AS u(seq, fence)
         WHERE NOT EXISTS (SELECT FROM windlass.jobs_1 j WHERE j.seq = u.seq AND j.fence = u.fence AND j.state = 1));
    v_queues text[];
    v_keys text[];
BEGIN
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
