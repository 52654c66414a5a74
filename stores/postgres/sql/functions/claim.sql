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

-- Comes into a claim. Says whether its request was answered before; unless it was, makes due jobs ready that were
-- delayed, and answers with the time, which is that of its last wait, with when time alone may free others, budgets
-- aside, and with the gates that it may take from. Plans as its caller says. Mirrors: Book::claim (up to the pick).
-- Test: conformance (requests asked again, delays, epochs), claims.
CREATE FUNCTION windlass.ask_1(
    p_given bigint, p_request uuid, p_asked text, p_queues text[], p_kinds text[], p_limit integer, p_lease_ms bigint,
    p_promote_max integer, OUT now_ms bigint, OUT next_ms bigint, OUT answered boolean, OUT gates windlass.gates)
LANGUAGE plpgsql AS $$
DECLARE
    v_epoch windlass.epoch;
    v_moved integer := 0;
    v_moves integer;
    v_all windlass.gates;
BEGIN
    now_ms := windlass.begin_1(p_given);
    v_epoch := windlass.pausing_1(now_ms);
    -- Who asks again waits until the first is over, and is answered what that got.
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(p_request, 0));
    answered := windlass.answered_1(p_request, p_asked);
    IF answered THEN
        RETURN;
    END IF;
    now_ms := greatest(now_ms, windlass.clock_1(p_given));
    next_ms := windlass.next_due_1(p_queues);
    IF next_ms <= now_ms THEN
        PERFORM windlass.promote_1(now_ms, p_promote_max, p_queues);
        -- The keys of jobs that are due may have been waited for.
        now_ms := greatest(now_ms, windlass.clock_1(p_given));
        next_ms := windlass.next_due_1(p_queues);
    END IF;
    LOOP
        gates := windlass.gates_2(now_ms, v_epoch, p_queues, p_kinds, p_lease_ms);
        EXIT WHEN v_moved >= p_promote_max OR gates.spends IS NOT TRUE AND v_epoch.number IS NULL;
        -- An epoch holds back what stands at a gate, also where it does not belong.
        v_all := CASE WHEN v_epoch.number IS NULL THEN gates
                      ELSE windlass.gates_2(now_ms, NULL, p_queues, p_kinds, p_lease_ms) END;
        v_moves := windlass.regate_1(v_epoch, v_all, 2 * p_limit + 1, p_promote_max - v_moved);
        EXIT WHEN v_moves = 0;
        v_moved := v_moved + v_moves;
    END LOOP;
    IF v_moved >= p_promote_max THEN
        -- There may be more of them: the next claim goes on.
        next_ms := now_ms;
    END IF;
    IF v_epoch.number IS NOT NULL THEN
        next_ms := least(next_ms, (
            SELECT min(p.until) FROM unnest(p_queues) AS q(name)
             CROSS JOIN windlass.pause_until_1(v_epoch, q.name) AS p(until) WHERE p.until > now_ms));
    END IF;
END $$;

-- The gates that a claim may take from: those of its queues and kinds that have ready jobs and are not held back by a
-- pause or an epoch. Each is named after where its first job belongs (windlass.gate_label_1). Locks nothing. Plans as
-- its caller says. Mirrors: eligible (pauses, epochs).
-- Test: conformance (pauses, epochs), claims (gates of others are not looked at).
CREATE FUNCTION windlass.gates_2(
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
        SELECT h.room, h.gate, l.label, split_part(h.label, chr(31), 1) AS queue,
               split_part(h.label, chr(31), 2) AS kind, split_part(h.label, chr(31), 3) = 'k' AS keyed,
               array_to_string((string_to_array(l.label, chr(31)))[4:], chr(31)) AS names,
               -- How many jobs a row seems to have: the first may be what a claim has left.
               (SELECT 1 + coalesce(max(cardinality(first.more_seqs)), 0) FROM (
                    SELECT r.more_seqs FROM windlass.ready r WHERE r.room = h.room AND r.gate = h.gate
                     ORDER BY r.rank, r.seq LIMIT 2) first) AS jobs
          FROM heads h CROSS JOIN LATERAL (
               SELECT CASE WHEN split_part(h.label, chr(31), 4) = '' THEN h.label
                           ELSE windlass.gate_label_1(h.label) END AS label) l
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

-- Whether something else than the claim itself bounds what these gates give: a limit, a budget that is defined, or a
-- key that is ready at several of them. Plans as its caller says. Mirrors: what windlass_core::pick has rooms and keys
-- for. Test: a_claim_that_nothing_bounds_is_one_statement.
CREATE FUNCTION windlass.is_bounded_1(p_gates windlass.gates) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF p_gates.limited IS NOT NULL OR p_gates.crossed OR p_gates.spends IS NOT TRUE THEN
        RETURN p_gates.limited IS NOT NULL OR p_gates.crossed;
    END IF;
    RETURN EXISTS (
        SELECT FROM unnest(p_gates.budgets) AS g(names) CROSS JOIN unnest(string_to_array(g.names, chr(31))) AS n(name)
          JOIN windlass.budgets b ON b.name = n.name);
END $$;

-- Gives leases. Always answers with at least one row; its first four columns are the time, the moment when time alone
-- may free another job, the instance of the store, and whether the claim is bounded, and the others are a leased job,
-- or nothing. The answer is in no order; whoever reads it puts it into that of rank and seq.
--
-- By itself it picks as windlass_core::pick does where that has no rooms and no key at two gates: a merge of the gates
-- by rank and number. Where a claim is bounded it takes nothing and says so; then windlass.survey_1 is asked, core
-- picks, and this function is told, in the same transaction, when that was (p_at), at which gates (p_gates, as they
-- were answered), how many of each (p_takes), and of crossed keys which (p_picks).
--
-- Jobs that never ran before and have no dedupe key get no row of their own: their leases are open in "grants".
--
-- Locks: the keys of due jobs (promotion) come first; then the rows of limited queues and of budgets, each sorted
-- (survey_1); then the rows of "ready" with those of their keys, which are not waited for; then their jobs, which
-- nobody else holds unless he found them before they were ready.
-- Mirrors: Book::claim, windlass_core::pick. Test: conformance (every claim).
CREATE FUNCTION windlass.claim_3(
    p_now bigint, p_request uuid, p_worker text, p_queues text[], p_kinds text[], p_limit integer,
    p_lease_ms bigint, p_promote_max integer, p_asked text, p_bytes_max bigint, p_at bigint DEFAULT NULL,
    p_gates text DEFAULT NULL, p_takes bigint[] DEFAULT NULL, p_picks bigint[] DEFAULT NULL)
RETURNS TABLE (
    now_ms bigint, next_ms bigint, instance uuid, bounded boolean, seq bigint, id uuid, kind text, queue text,
    payload text, priority smallint, key text, dedupe_key text, budgets text[], retry text, timeout_ms bigint,
    meta text, rank bigint, created_ms bigint, run_at_ms bigint, state smallint, attempt integer, crashes integer,
    fence bigint, retries integer, started_ms bigint, worker text, lease_ms bigint, expires_ms bigint,
    cancel_requested boolean, marked_ms bigint, ended_ms bigint, failure smallint, result text, progress text,
    history text, policy text, steps text, pack bigint)
LANGUAGE plpgsql
-- Without sorting, the head of a gate is read off its index, whatever the
-- statistics say about how few jobs are ready.
SET enable_sort = off SET enable_incremental_sort = off
{planned} AS $$
#variable_conflict use_column
DECLARE
    a record;
    v_now bigint;
    v_next bigint;
    v_instance uuid;
    v_floor bigint;
    v_bounded boolean := false;
    v_gates windlass.gates := p_gates::windlass.gates;
    v_takes bigint[] := p_takes;
    v_taken windlass.taken;
    v_numbers bigint[];
BEGIN
    v_taken.now_ms := p_at;
    IF p_takes IS NULL THEN
        -- Assigned, and not selected: that is the cheaper by half.
        a := windlass.ask_1(p_now, p_request, p_asked, p_queues, p_kinds, p_limit, p_lease_ms, p_promote_max);
        IF a.answered THEN
            RETURN QUERY SELECT a.now_ms, a.next_ms, e.instance, false, (r.job).*
              FROM windlass.epoch e CROSS JOIN windlass.recall_1(p_request) r;
            RETURN;
        END IF;
        v_taken.now_ms := a.now_ms;
        v_next := a.next_ms;
        v_gates := a.gates;
    END IF;
    SELECT e.instance, greatest(1, e.floor) INTO STRICT v_instance, v_floor FROM windlass.epoch e;
    IF p_takes IS NULL AND v_gates.gates IS NOT NULL AND p_limit > 0 THEN
        v_bounded := (v_gates.limited IS NOT NULL OR v_gates.crossed OR v_gates.spends)
                     AND windlass.is_bounded_1(v_gates);
        v_takes := CASE WHEN NOT v_bounded THEN windlass.shares_2(p_limit, v_gates) END;
    END IF;
    IF v_takes IS NOT NULL THEN
        v_taken := windlass.take_1(
            p_now, p_worker, v_floor, p_lease_ms, p_bytes_max, v_gates, v_takes, p_picks, v_taken);
    END IF;
    v_now := v_taken.now_ms;
    IF v_taken.seqs IS NULL THEN
        RETURN QUERY SELECT v_now, v_next, v_instance, v_bounded, j.*
          FROM (VALUES (1)) AS always(one) LEFT JOIN windlass.jobs_1 j ON false;
        RETURN;
    END IF;
    v_numbers := windlass.remember_2(p_request, p_worker, p_asked, v_floor, v_gates, v_taken);
    -- The answer is written out here: a function that gave it would copy every payload once more.
    IF v_taken.known THEN
        RETURN QUERY SELECT v_now, v_next, v_instance, false, l.* FROM windlass.leased_2(v_taken, v_numbers) l;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT v_now, v_next, v_instance, false, j.seq, j.id, j.kind, j.queue, j.payload, j.priority, j.key, j.dedupe_key,
           j.budgets, j.retry, j.timeout_ms, j.meta, j.rank, j.created_ms, j.run_at_ms, 1::smallint, 1, 0, u.fence, 0,
           v_now, p_worker, u.lease_ms, windlass.moment_1(v_now + u.lease_ms), false, NULL::bigint, NULL::bigint,
           NULL::smallint, NULL::text, NULL::text, NULL::text, v_gates.policies[u.at], NULL::text, NULL::bigint
      FROM (SELECT u.*, v_gates.lease_ms[u.at] AS lease_ms
              FROM unnest(v_taken.seqs, v_taken.ats, v_taken.fences) AS u(seq, at, fence)) u
      JOIN windlass.jobs j ON j.seq = u.seq;
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
