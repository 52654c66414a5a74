-- Grants: who runs. A row of "grants" is what a claim gave at one gate, of a block of 64 numbers, with a bit for each
-- job that runs by it. Who holds the row holds its leases: whatever ends one, or gives it a row of its own, locks it
-- first, in the order of block and number.

-- The bit of a job in its block.
CREATE FUNCTION windlass.bit_1(p_seq bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT 1::bigint << (p_seq & 63)::integer
$$;

-- The numbers of the jobs that have these bits of a block, rising.
CREATE FUNCTION windlass.seqs_1(p_block bigint, p_bits bigint) RETURNS SETOF bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_block << 6) | n FROM generate_series(0, 63) AS n WHERE (p_bits >> n) & 1 = 1
$$;

-- Locks the grants by which these jobs run. Afterwards nobody else ends or renews one of them for the first time.
-- Mirrors: nothing; core has one job at a time. Test: open_leases_are_divided_without_loss.
CREATE FUNCTION windlass.lock_grants_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    PERFORM FROM (SELECT u.seq >> 6 AS block, bit_or(windlass.bit_1(u.seq)) AS bits FROM unnest(p_seqs) AS u(seq)
                   WHERE u.seq IS NOT NULL GROUP BY 1) a
       JOIN windlass.grants g ON g.block = a.block AND g.given & a.bits <> 0
      ORDER BY g.block, g.number FOR UPDATE OF g;
END $$;

-- Takes the bits of jobs that run no more, and the rows that have no other. Before: their grants are held.
-- Mirrors: nothing; in core a lease is part of the state. Test: conformance (each sequence ends with an audit).
CREATE FUNCTION windlass.ungrant_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    WITH over AS MATERIALIZED (
        SELECT g.block, g.number, g.given & ~a.bits AS given, g.open & ~a.bits AS open
          FROM (SELECT u.seq >> 6 AS block, bit_or(windlass.bit_1(u.seq)) AS bits FROM unnest(p_seqs) AS u(seq)
                 GROUP BY 1) a
          JOIN windlass.grants g ON g.block = a.block AND g.given & a.bits <> 0
    ), gone AS (
        DELETE FROM windlass.grants g USING over o WHERE g.block = o.block AND g.number = o.number AND o.given = 0
    )
    UPDATE windlass.grants g SET given = o.given, open = o.open FROM over o
     WHERE g.block = o.block AND g.number = o.number AND o.given <> 0;
END $$;

-- Gives rows of their own to those of these jobs of which only a grant knows. After it, each of them that runs has one,
-- and its grant is held. Mirrors: nothing; it is how a lease is written. Test: open_leases_are_divided_without_loss.
CREATE FUNCTION windlass.unpack_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    PERFORM windlass.lock_grants_1(p_seqs);
    WITH held AS MATERIALIZED (
        SELECT g.*, g.open & a.bits AS bits
          FROM (SELECT u.seq >> 6 AS block, bit_or(windlass.bit_1(u.seq)) AS bits FROM unnest(p_seqs) AS u(seq)
                 WHERE u.seq IS NOT NULL GROUP BY 1) a
          JOIN windlass.grants g ON g.block = a.block AND g.open & a.bits <> 0
    ), fewer AS (
        UPDATE windlass.grants g SET open = h.open & ~h.bits FROM held h WHERE g.block = h.block AND g.number = h.number
    )
    INSERT INTO windlass.runs (seq, fence, started_ms, lease_ms, expires_ms, attempt, state, deduped, label, key,
        worker)
    SELECT j.seq, h.fence, h.started_ms, h.lease_ms, h.due_ms, 1, 1, false, h.label, j.key, h.worker
      FROM held h CROSS JOIN LATERAL windlass.seqs_1(h.block, h.bits) AS s(seq) JOIN windlass.jobs j ON j.seq = s.seq;
END $$;

-- Grants what a claim took at several gates, or at one of several labels (windlass.gate_label_1): a row for each block,
-- gate and label of its jobs, with one number for each gate and label. Answers with the numbers. Plans as its caller
-- says. Mirrors: nothing; in core a lease is part of the state. Test: conformance (several kinds, budgets).
CREATE FUNCTION windlass.grant_1(
    p_request uuid, p_worker text, p_asked text, p_floor bigint, p_gates windlass.gates, p_taken windlass.taken)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_numbers bigint[];
    -- Variables of their own: an entry of one is found at once, and one of a row is not.
    v_labels text[] := p_gates.labels;
    v_lease_ms bigint[] := p_gates.lease_ms;
BEGIN
    WITH job AS (
        SELECT u.seq, u.at, CASE WHEN right(v_labels[u.at], 1) = chr(30) THEN (
                   SELECT windlass.label_1(j.queue, j.kind, j.key, j.budgets) FROM windlass.jobs j WHERE j.seq = u.seq)
               ELSE v_labels[u.at] END AS label
          FROM unnest(p_taken.seqs, p_taken.ats) AS u(seq, at)
    ), block AS (
        SELECT b.*, nextval('windlass.claim_number') AS number
          FROM (SELECT j.seq >> 6 AS block, j.at, j.label, bit_or(windlass.bit_1(j.seq)) AS given FROM job j
                 GROUP BY 1, 2, 3) b
    ), given AS (
        INSERT INTO windlass.grants (block, number, given, open, due_ms, started_ms, lease_ms, fence, worker, label)
        SELECT b.block, min(b.number) OVER (PARTITION BY b.at, b.label), b.given, b.given,
               windlass.moment_1(p_taken.now_ms + v_lease_ms[b.at]), p_taken.now_ms, v_lease_ms[b.at], p_floor,
               p_worker, b.label
          FROM block b
        RETURNING block, number
    ), asked AS (
        INSERT INTO windlass.requests (request_id, at_ms, asked, blocks, numbers)
        SELECT p_request, p_taken.now_ms, p_asked, array_agg(g.block), array_agg(g.number) FROM given g
        RETURNING numbers
    )
    SELECT a.numbers INTO v_numbers FROM asked a;
    RETURN v_numbers;
END $$;

-- Remembers what a claim gave, counts it and tells of it. Answers with the numbers of the grants. Plans as its caller
-- says. Mirrors: Book::claim (what is remembered of a request). Test: conformance (requests asked again).
CREATE FUNCTION windlass.remember_2(
    p_request uuid, p_worker text, p_asked text, p_floor bigint, p_gates windlass.gates, p_taken windlass.taken)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_numbers bigint[];
    v_queues text[] := p_gates.queues;
    v_label text := p_gates.labels[1];
    v_lease_ms bigint := p_gates.lease_ms[1];
BEGIN
    IF cardinality(v_queues) > 1 OR right(v_label, 1) = chr(30) THEN
        v_numbers := windlass.grant_1(p_request, p_worker, p_asked, p_floor, p_gates, p_taken);
    ELSE
        v_numbers := ARRAY[nextval('windlass.claim_number')];
        WITH given AS (
            INSERT INTO windlass.grants (block, number, given, open, due_ms, started_ms, lease_ms, fence, worker, label)
            SELECT b.block, v_numbers[1], b.given, b.given, windlass.moment_1(p_taken.now_ms + v_lease_ms),
                   p_taken.now_ms, v_lease_ms, p_floor, p_worker, v_label
              FROM (SELECT u.seq >> 6 AS block, bit_or(windlass.bit_1(u.seq)) AS given
                      FROM unnest(p_taken.seqs) AS u(seq) GROUP BY 1) b
            RETURNING block, number
        )
        INSERT INTO windlass.requests (request_id, at_ms, asked, blocks, numbers)
        SELECT p_request, p_taken.now_ms, p_asked, array_agg(g.block), array_agg(g.number) FROM given g;
    END IF;
    IF p_taken.apart THEN
        UPDATE windlass.grants g SET open = g.open & ~b.bits
          FROM (SELECT r.seq >> 6 AS block, bit_or(windlass.bit_1(r.seq)) AS bits
                  FROM unnest(p_taken.seqs) AS u(seq) JOIN windlass.runs r ON r.seq = u.seq GROUP BY 1) b
         WHERE g.block = b.block AND g.number = ANY (v_numbers);
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

-- Whether a request was answered before; refuses it with WL003 when another asked it. Plans as its caller says.
-- Mirrors: ClaimRequest::asked. Test: conformance (requests asked again, by others).
CREATE FUNCTION windlass.answered_1(p_request uuid, p_asked text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_asked text;
BEGIN
    SELECT r.asked INTO v_asked FROM windlass.requests r WHERE r.request_id = p_request;
    IF NOT FOUND THEN
        RETURN false;
    ELSIF v_asked IS DISTINCT FROM p_asked THEN
        RAISE EXCEPTION 'claim % was asked by another', p_request USING ERRCODE = 'WL003', DETAIL = p_request::text;
    END IF;
    RETURN true;
END $$;

-- What a request was given, as far as it is still held. Plans as its caller says. Mirrors: Book::claim (a request that
-- is asked again). Test: conformance (requests asked again).
CREATE FUNCTION windlass.recall_1(p_request uuid) RETURNS TABLE (job windlass.jobs_1, place integer)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT j, NULL::integer
      FROM windlass.requests r CROSS JOIN unnest(r.blocks, r.numbers) AS u(block, number)
      JOIN windlass.grants g ON g.block = u.block AND g.number = u.number
     CROSS JOIN LATERAL windlass.seqs_1(g.block, g.given) AS s(seq)
      JOIN windlass.jobs_1 j ON j.seq = s.seq AND j.state = 1
     WHERE r.request_id = p_request;
END $$;

-- When the next look at a lease may find something to do; mirrors Lease::look_at. The
-- constants are those of windlass_core::lease::WAIT_MS.
CREATE FUNCTION windlass.look_1(p_expires bigint, p_lease_ms bigint, p_marked bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_marked IS NULL THEN p_expires - least(p_lease_ms / 3, 60000)
                ELSE greatest(p_expires, p_marked + least(greatest(p_lease_ms / 3, 1000), 60000)) END
$$;

-- When the next lease is to be looked at. Looks at grants, beginning with what is near its end first, and notes what
-- was renewed, until one is right: every lease is looked at once after each renewal that mattered. Who holds a grant
-- is not waited for: then somebody looks again. Mirrors: Book::expire (next_in_ms). Test: conformance (expiry).
CREATE FUNCTION windlass.next_look_1(p_now bigint) RETURNS bigint LANGUAGE plpgsql
{planned} AS $$
DECLARE
    g record;
    l record;
    v_first bigint;
    v_rows integer := 0;
BEGIN
    FOR g IN SELECT k.block, k.number, k.due_ms, k.due_ms - least(k.lease_ms / 3, 60000) AS look_ms, k.given, k.open
               FROM windlass.grants k ORDER BY k.due_ms - least(k.lease_ms / 3, 60000) LIMIT 10000
    LOOP
        -- All that may be near their end by now, then the others up to the first that is right.
        EXIT WHEN g.look_ms > p_now AND g.look_ms >= v_first;
        v_rows := v_rows + 1;
        IF g.open <> 0 THEN
            v_first := least(v_first, g.look_ms);
            CONTINUE;
        END IF;
        SELECT min(r.expires_ms) AS due_ms, min(windlass.look_1(r.expires_ms, r.lease_ms, r.marked_ms)) AS look_ms
          INTO l FROM (SELECT s.seq, 1 AS running FROM windlass.seqs_1(g.block, g.given) AS s(seq)) s
          JOIN windlass.runs r ON r.seq = s.seq AND r.state = s.running;
        IF l.due_ms <> g.due_ms THEN
            UPDATE windlass.grants k SET due_ms = l.due_ms WHERE k.ctid = (
                SELECT k.ctid FROM windlass.grants k WHERE k.block = g.block AND k.number = g.number
                   AND k.due_ms = g.due_ms FOR UPDATE SKIP LOCKED);
        END IF;
        v_first := least(v_first, l.look_ms);
    END LOOP;
    -- Sooner is no harm: then somebody looks again.
    RETURN CASE WHEN v_rows = 10000 THEN least(v_first, g.look_ms) ELSE v_first END;
END $$;

-- The leases that are to be looked at, in the order of that; mirrors Book::expire. What is
-- found here is looked at again once it is locked.
CREATE FUNCTION windlass.to_look_at_1(p_now bigint, p_max integer) RETURNS SETOF uuid LANGUAGE plpgsql
{planned} AS $$
BEGIN
    RETURN QUERY
    SELECT l.id FROM (
        SELECT j.id, j.seq, CASE WHEN r.seq IS NULL THEN windlass.look_1(g.due_ms, g.lease_ms, NULL)
                                 ELSE windlass.look_1(r.expires_ms, r.lease_ms, r.marked_ms) END AS look_ms
          FROM windlass.grants g CROSS JOIN LATERAL windlass.seqs_1(g.block, g.given) AS s(seq)
          LEFT JOIN windlass.runs r ON r.seq = s.seq
          JOIN windlass.jobs j ON j.seq = s.seq
         WHERE g.due_ms - least(g.lease_ms / 3, 60000) <= p_now
           AND coalesce(r.state, 1) = 1) l
     WHERE l.look_ms <= p_now
     ORDER BY l.look_ms, l.seq LIMIT p_max;
END $$;
