-- Taking: jobs that a claim is to have leave their places in line and get their leases. How many of each gate, and
-- which of crossed keys, is said by windlass.shares_2 or by windlass_core::pick.

-- Whether a row stands for a gate: two can share a number by chance, and a budget may have been defined since the row
-- came to its gate. Nearly always the labels are the same. Mirrors: nothing. Test: conformance (budgets that are
-- defined late).
CREATE FUNCTION windlass.is_of_1(p_label text, p_gate_label text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_label = p_gate_label
        OR split_part(p_label, chr(31), 4) <> '' AND windlass.gate_label_1(p_label) = p_gate_label
$$;

-- How many jobs each gate gives to a claim that nothing else bounds: a merge of the gates by rank and number. Plans as
-- its caller says. Mirrors: windlass_core::pick without rooms. Test: conformance (several kinds).
CREATE FUNCTION windlass.shares_2(p_limit integer, p_gates windlass.gates) RETURNS bigint[] LANGUAGE plpgsql AS $$
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
                               WHERE h.room = g.room AND h.gate = g.gate AND windlass.is_of_1(h.label, g.label)
                               ORDER BY h.rank, h.seq LIMIT p_limit) head
                        ORDER BY head.rank, head.seq LIMIT p_limit) h
                    GROUP BY h.at) t ON t.at = u.at);
END $$;

-- Locks rows of "ready" at gates without keys, as many as seem to be needed for what is left over of each gate's share,
-- those of others not waited for. Answers with the rows, and with those that have more jobs than are wanted and how
-- many of them are. Plans as its caller says. Mirrors: nothing; core reads heads one by one. Test: conformance
-- (batches).
CREATE FUNCTION windlass.lock_rows_2(
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
                    WHERE h.room = g.room AND h.gate = g.gate AND windlass.is_of_1(h.label, g.label)
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
CREATE FUNCTION windlass.take_rows_2(
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
        r := windlass.lock_rows_2(p_gates, v_left, v_sizes);
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
CREATE FUNCTION windlass.lock_keyed_2(
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
            WHERE h.room = g.room AND h.gate = g.gate AND windlass.is_of_1(h.label, g.label)
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

-- Begins the runs of taken jobs that ran before. One that somebody has moved since keeps its row: windlass.untake_2
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

-- Counts the slots of budgets that jobs have from now on, those of budgets that nobody has defined with them: somebody
-- may. Plans as its caller says. Mirrors: Lanes::slots_used. Test: conformance (budgets).
CREATE FUNCTION windlass.count_slots_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.tally (what, name, delta)
    SELECT 1, n.name, count(*)
      FROM unnest(p_seqs) AS u(seq) JOIN windlass.jobs j ON j.seq = u.seq CROSS JOIN unnest(j.budgets) AS n(name)
     GROUP BY n.name;
END $$;

-- Takes as many jobs of each gate as p_takes says, of those with keys only p_picks where that is given, and gives them
-- their leases. Answers with them and the fences that they have now: fewer where others hold the rest. Ends the call
-- when they have too many bytes. Plans as its caller says. Mirrors: transition::claim. Test: conformance (every claim),
-- caps.
CREATE FUNCTION windlass.take_1(
    p_given bigint, p_worker text, p_floor bigint, p_lease_ms bigint, p_bytes_max bigint, p_gates windlass.gates,
    p_takes bigint[], p_picks bigint[], p_taken windlass.taken)
RETURNS windlass.taken LANGUAGE plpgsql AS $$
BEGIN
    IF false = ANY (p_gates.keyed) THEN
        p_taken := windlass.take_rows_2(p_given, p_floor, p_worker, p_gates, p_takes, p_taken);
    END IF;
    IF p_gates.keys THEN
        p_taken := windlass.lock_keyed_2(p_gates, p_takes, p_picks, p_taken);
    END IF;
    IF p_taken.seqs IS NULL THEN
        RETURN p_taken;
    END IF;
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
        PERFORM windlass.count_slots_1(p_taken.seqs);
    END IF;
    RETURN p_taken;
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
