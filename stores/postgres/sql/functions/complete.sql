-- Completions: transition::settle for Outcome::Completed, of many jobs at once. A job that only its grant knows of gets
-- the row that says that it has ended, and no other; one that has a row has it updated. What the caller names beside
-- ids and fences comes from tickets and is a hint: it says where to look, and is compared with what is stored there.
-- Callers sort by number, which costs the least, and may say anything else.

-- The numbers of these jobs, in their order, nothing for one that is not there. Numbers that are named, in rising
-- order, are right when the jobs that have them have these ids; otherwise they are looked up.
CREATE FUNCTION windlass.numbers_1(p_ids uuid[], p_seqs bigint[]) RETURNS bigint[] LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_jobs integer := cardinality(p_ids);
    v_low bigint := p_seqs[1];
    v_high bigint := p_seqs[v_jobs];
BEGIN
    -- Numbers that follow each other, as those of a claim mostly do, are read as one range, at a fraction of the cost.
    IF v_high - v_low = v_jobs - 1 THEN
        IF ARRAY(SELECT j.id FROM windlass.jobs j WHERE j.seq BETWEEN v_low AND v_high ORDER BY j.seq) = p_ids THEN
            RETURN p_seqs;
        END IF;
    ELSIF v_high IS NOT NULL
          AND ARRAY(SELECT j.id FROM windlass.jobs j WHERE j.seq = ANY (p_seqs) ORDER BY j.seq) = p_ids THEN
        RETURN p_seqs;
    END IF;
    RETURN ARRAY(SELECT (SELECT j.seq FROM windlass.jobs j WHERE j.id = u.id)
                   FROM unnest(p_ids) WITH ORDINALITY AS u(id, ord) ORDER BY u.ord);
END $$;

-- Lets go of the keys of jobs that have just ended and whose grants are held.
-- Answers whether others of these keys are ready now.
CREATE FUNCTION windlass.free_keys_1(p_seqs bigint[]) RETURNS boolean LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_queues text[];
    v_keys text[];
    v_soles bigint[];
BEGIN
    WITH freed AS (
        UPDATE windlass.keys k SET holder = NULL
          FROM (SELECT j.queue, j.key, u.seq FROM unnest(p_seqs) AS u(seq) JOIN windlass.jobs j ON j.seq = u.seq
                 WHERE j.key IS NOT NULL ORDER BY 1, 2) u
         WHERE k.queue = u.queue AND k.key = u.key AND k.holder = u.seq
        RETURNING k.queue, k.key, k.gate
    )
    SELECT array_agg(f.queue), array_agg(f.key), array_agg(f.gate) INTO v_queues, v_keys, v_soles FROM freed f;
    RETURN v_keys IS NOT NULL AND windlass.expose_1(v_queues, v_keys, true, v_soles);
END $$;

-- Lets go of the dedupe keys of jobs that have ended.
CREATE FUNCTION windlass.free_dedupe_keys_1(p_seqs bigint[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    UPDATE windlass.jobs j SET dedupe_held = NULL WHERE j.seq = ANY (p_seqs) AND j.dedupe_held IS NOT NULL;
END $$;

-- Completes those of these jobs that are open, and holds the grants of all of them. Answers with their places among
-- those asked for (nothing when it is all of them, in their order), and with what their gates stand for: once, when it
-- is the same for all. A job is open when its grant says so, with the fence of that; then no row says what became of
-- it. Afterwards the completed ones have rows, and their bits are to be taken away. Mirrors: transition::settle. Test:
-- conformance (tickets, settlements), a_job_that_simply_ends_is_written_twice.
CREATE FUNCTION windlass.complete_open_3(
    p_now bigint, p_seqs bigint[], p_fences bigint[], p_results text[], OUT ords bigint[], OUT labels text[])
LANGUAGE plpgsql
{planned} AS $$
DECLARE
    c record;
BEGIN
    -- Mostly all of them were given by one claim, at one gate, and nothing else has happened to any.
    SELECT bool_and((g.open & a.bits = a.bits AND g.fence = a.fence) IS TRUE)
               AND min(g.number) = max(g.number) AS whole,
           min(g.fence) AS fence, min(g.started_ms) AS started_ms, min(g.worker) AS worker, min(g.label) AS label INTO c
      FROM (SELECT u.seq >> 6 AS block, bit_or(windlass.bit_1(u.seq)) AS bits,
                   CASE WHEN min(u.fence) = max(u.fence) THEN min(u.fence) END AS fence
              FROM unnest(p_seqs, p_fences) AS u(seq, fence) WHERE u.seq IS NOT NULL GROUP BY 1 ORDER BY 1) a
      LEFT JOIN LATERAL (
           SELECT k.* FROM windlass.grants k WHERE k.block = a.block AND k.given & a.bits <> 0
            ORDER BY k.block, k.number FOR UPDATE) g ON true;
    IF c.whole AND array_position(p_seqs, NULL) IS NULL THEN
        INSERT INTO windlass.runs (seq, fence, started_ms, ended_ms, attempt, state, deduped, worker, result)
        SELECT u.seq, c.fence, c.started_ms, p_now, 1, 2, false, c.worker, u.result
          FROM unnest(p_seqs, p_results) AS u(seq, result);
        labels := ARRAY[c.label];
        RETURN;
    END IF;
    WITH open AS MATERIALIZED (
        SELECT u.seq, u.ord, u.result, g.fence, g.started_ms, g.worker, g.label
          FROM unnest(p_seqs, p_fences, p_results) WITH ORDINALITY AS u(seq, fence, result, ord)
          JOIN windlass.grants g ON g.block = u.seq >> 6 AND g.open & windlass.bit_1(u.seq) <> 0 AND g.fence = u.fence
    ), ended AS (
        INSERT INTO windlass.runs (seq, fence, started_ms, ended_ms, attempt, state, deduped, worker, result)
        SELECT o.seq, o.fence, o.started_ms, p_now, 1, 2, false, o.worker, o.result FROM open o
    )
    SELECT array_agg(o.ord), array_agg(o.label) INTO ords, labels FROM open o;
END $$;

-- Completes those of these jobs that have rows of their own. Before: their grants are held, so that nobody else ends
-- one of them. Answers as the other does, and whether one has a dedupe key.
-- Mirrors: transition::settle. Test: conformance (settlements after renewals).
CREATE FUNCTION windlass.complete_rows_2(
    p_now bigint, p_seqs bigint[], p_fences bigint[], p_results text[], OUT ords bigint[], OUT labels text[],
    OUT deduped boolean)
LANGUAGE plpgsql
{planned} AS $$
BEGIN
    WITH done AS (
        UPDATE windlass.runs r
           SET state = 2, ended_ms = p_now, result = l.result, lease_ms = NULL, expires_ms = NULL, marked_ms = NULL,
               cancel_requested = false
          FROM (SELECT u.seq, u.fence, u.result, u.ord, 1 AS running
                  FROM unnest(p_seqs, p_fences, p_results) WITH ORDINALITY AS u(seq, fence, result, ord)
                 ORDER BY u.seq) l
         WHERE r.seq = l.seq AND r.state = l.running AND r.fence = l.fence
        RETURNING l.ord, r.label, r.deduped
    )
    SELECT array_agg(d.ord), array_agg(d.label), bool_or(d.deduped) INTO ords, labels, deduped FROM done d;
END $$;

-- The queues of gates, in their order.
CREATE FUNCTION windlass.queues_of_1(p_labels text[]) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT split_part(u.label, chr(31), 1)
                   FROM unnest(p_labels) WITH ORDINALITY AS u(label, ord) ORDER BY u.ord)
$$;

-- Writes down that jobs were completed: what is counted, what is kept, and what is told (in the order of p_told, unless
-- nobody is to be told here); deletes what its queue does not keep. One label stands for all. Answers whether somebody
-- may wait for what they had.
CREATE FUNCTION windlass.completed_1(p_now bigint, p_told uuid[], p_ids uuid[], p_seqs bigint[], p_labels text[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_labels text[] := p_labels;
    v_queues text[];
    v_doomed text[];
    v_freed boolean;
BEGIN
    IF cardinality(p_labels) < cardinality(p_ids) THEN
        v_queues := ARRAY[split_part(p_labels[1], chr(31), 1)];
    ELSE
        v_queues := windlass.queues_of_1(p_labels);
    END IF;
    SELECT array_agg(q.name) FILTER (WHERE q.delete_finished), coalesce(bool_or(q.limit_jobs IS NOT NULL), false)
      INTO v_doomed, v_freed FROM windlass.queues q
     WHERE q.name = ANY (v_queues) AND (q.delete_finished OR q.limit_jobs IS NOT NULL);
    IF v_doomed IS NULL AND array_remove(p_labels, p_labels[1]) = '{}' AND cardinality(p_told) = cardinality(p_ids) THEN
        WITH fewer AS (
            INSERT INTO windlass.tally (what, name, delta)
            SELECT 0, v_queues[1], -cardinality(p_seqs)
            UNION ALL
            SELECT 1, b.name, -cardinality(p_seqs)
              FROM unnest((string_to_array(p_labels[1], chr(31)))[4:]) AS b(name) WHERE b.name <> ''
        ), kept AS (
            INSERT INTO windlass.ended (queue, ended_ms, jobs, seqs)
            VALUES (v_queues[1], p_now, cardinality(p_seqs), p_seqs)
        )
        INSERT INTO windlass.events (at_ms, what, queue, jobs) VALUES (p_now, 2, v_queues[1], p_told);
        RETURN v_freed OR split_part(p_labels[1], chr(31), 4) <> '';
    END IF;
    IF cardinality(p_labels) < cardinality(p_ids) THEN
        v_labels := array_fill(p_labels[1], ARRAY[cardinality(p_ids)]);
        v_queues := array_fill(v_queues[1], ARRAY[cardinality(p_ids)]);
    END IF;
    INSERT INTO windlass.tally (what, name, delta)
    SELECT 0, u.queue, -count(*) FROM unnest(v_queues) AS u(queue) GROUP BY u.queue
    UNION ALL
    SELECT 1, b.name, -count(*) FROM unnest(v_labels) AS u(label)
     CROSS JOIN unnest((string_to_array(u.label, chr(31)))[4:]) AS b(name) WHERE b.name <> '' GROUP BY b.name;
    INSERT INTO windlass.ended (queue, ended_ms, jobs, seqs)
    SELECT u.queue, p_now, count(*), array_agg(u.seq) FROM unnest(v_queues, p_seqs) AS u(queue, seq)
     WHERE v_doomed IS NULL OR u.queue <> ALL (v_doomed) GROUP BY u.queue;
    IF p_told IS NOT NULL THEN
        PERFORM windlass.note_1(p_now, 2, array_agg(u.queue ORDER BY t.ord), array_agg(t.id ORDER BY t.ord))
           FROM unnest(p_told) WITH ORDINALITY AS t(id, ord)
           JOIN unnest(p_ids, v_queues) AS u(id, queue) ON u.id = t.id;
    END IF;
    IF v_doomed IS NOT NULL THEN
        PERFORM windlass.delete_1(array_agg(u.seq))
           FROM unnest(p_seqs, v_queues) AS u(seq, queue) WHERE u.queue = ANY (v_doomed);
    END IF;
    RETURN v_freed OR EXISTS (SELECT FROM unnest(v_labels) AS u(label) WHERE split_part(u.label, chr(31), 4) <> '');
END $$;

-- Completes jobs, each named once. Answers with how many of them were running with the fence named and, unless that
-- were all and they are told of here (p_told: the order for that), with which. p_seqs are the numbers that their
-- tickets say. Mirrors: Book::settle for completions. Test: conformance (settlements, tickets), line.
CREATE FUNCTION windlass.complete_3(
    p_now bigint, p_ids uuid[], p_fences bigint[], p_results text[], p_told uuid[], p_seqs bigint[])
RETURNS TABLE (done bigint, ids uuid[], queues text[], freed boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_seqs bigint[] := windlass.numbers_1(p_ids, p_seqs);
    v_left bigint[] := v_seqs;
    v_deduped boolean := false;
    o record;
    r record;
BEGIN
    SELECT * INTO o FROM windlass.complete_open_3(v_now, v_seqs, p_fences, p_results);
    IF o.labels IS NOT NULL AND o.ords IS NULL THEN
        ids := p_ids;
        done := cardinality(p_ids);
    ELSE
        IF o.ords IS NOT NULL THEN
            v_left := ARRAY(SELECT CASE WHEN u.ord NOT IN (SELECT unnest(o.ords)) THEN u.seq END
                              FROM unnest(v_seqs) WITH ORDINALITY AS u(seq, ord) ORDER BY u.ord);
        END IF;
        IF o.ords IS NULL OR cardinality(o.ords) < cardinality(p_ids) THEN
            SELECT * INTO r FROM windlass.complete_rows_2(v_now, v_left, p_fences, p_results);
            o.ords := o.ords || r.ords;
            o.labels := o.labels || r.labels;
            v_deduped := coalesce(r.deduped, false);
        END IF;
        SELECT array_agg(p_ids[u.ord] ORDER BY u.n), array_agg(v_seqs[u.ord] ORDER BY u.n) INTO ids, v_seqs
          FROM unnest(o.ords) WITH ORDINALITY AS u(ord, n);
        done := coalesce(cardinality(o.ords), 0);
    END IF;
    freed := false;
    IF done > 0 THEN
        PERFORM windlass.ungrant_1(v_seqs);
        IF EXISTS (SELECT FROM unnest(o.labels) AS l(label) WHERE split_part(l.label, chr(31), 3) = 'k') THEN
            freed := windlass.free_keys_1(v_seqs);
        END IF;
        IF v_deduped THEN
            PERFORM windlass.free_dedupe_keys_1(v_seqs);
        END IF;
        freed := windlass.completed_1(v_now, p_told, ids, v_seqs, o.labels) OR freed;
    END IF;
    IF p_told IS NOT NULL AND done = cardinality(p_ids) THEN
        ids := NULL;
    ELSE
        queues := windlass.queues_of_1(o.labels);
        IF cardinality(queues) < done THEN
            queues := array_fill(queues[1], ARRAY[done::integer]);
        END IF;
    END IF;
    RETURN NEXT;
END $$;
