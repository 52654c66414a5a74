-- Completions: transition::settle for Outcome::Completed, of many jobs at once. A job that only its claim knows of gets
-- the row that says that it has ended, and no other; one that has a row has it updated. What the caller names beside
-- ids and fences comes from tickets and is a hint: it says where to look, and all of it is compared with what is stored
-- there. Callers sort by claim and number, which costs the least, and may say anything else.

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

-- Lets go of the keys of jobs that end now and are open in claims that are held: a key must be locked before its job.
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

-- Completes those of these jobs that this claim holds open, and answers with their places among those asked for
-- (nothing when it is all of them), and with what the gate of the claim stands for. A job is held open when it stands
-- at its place in the claim, its fence is that of the claim (a promotion that lost commits may give the number of a
-- claim twice), and no row says yet what became of it. Whoever does anything else with an open lease holds its claim,
-- so that what is found here stays so.
CREATE FUNCTION windlass.complete_claim_1(
    p_now bigint, p_seqs bigint[], p_fences bigint[], p_results text[], p_claim bigint, p_at integer[])
RETURNS TABLE (ords bigint[], label text, freed boolean) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    c record;
    v_claimed bigint[];
    v_seqs bigint[] := p_seqs;
BEGIN
    SELECT k.seqs, k.fence, k.label, k.started_ms, k.worker, k.whole INTO c FROM windlass.claims k
     WHERE k.number = p_claim AND k.due_ms IS NOT NULL AND k.open > 0 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_claimed := c.seqs;
    -- While nothing else has happened to any of them, a row can only be that of a settlement that is repeated.
    IF c.whole AND (SELECT bool_and((v_claimed[u.at] = u.seq AND u.fence = c.fence) IS TRUE)
                      FROM unnest(p_seqs, p_fences, p_at) AS u(seq, fence, at)) THEN
        c.whole := windlass.end_open_1(p_now, v_seqs, p_results, c.fence, c.started_ms, c.worker);
    ELSE
        c.whole := false;
    END IF;
    IF NOT c.whole THEN
        SELECT array_agg(u.seq), array_agg(u.ord) INTO v_seqs, ords
          FROM unnest(p_seqs, p_fences, p_at) WITH ORDINALITY AS u(seq, fence, at, ord)
         WHERE v_claimed[u.at] = u.seq AND u.fence = c.fence
           AND NOT EXISTS (SELECT FROM windlass.runs r WHERE r.seq = u.seq);
        IF ords IS NULL THEN
            RETURN;
        END IF;
        PERFORM windlass.end_open_1(
            p_now, v_seqs, CASE WHEN p_results IS NOT NULL THEN ARRAY(
                SELECT p_results[u.ord] FROM unnest(ords) WITH ORDINALITY AS u(ord, n) ORDER BY u.n) END,
            c.fence, c.started_ms, c.worker);
    END IF;
    label := c.label;
    freed := split_part(label, chr(31), 3) = 'k' AND windlass.free_keys_1(v_seqs);
    UPDATE windlass.claims k
       SET open = k.open - cardinality(v_seqs),
           due_ms = CASE WHEN k.open > cardinality(v_seqs) OR NOT k.whole THEN k.due_ms END
     WHERE k.number = p_claim;
    RETURN NEXT;
END $$;

-- Writes the rows of jobs of one claim that have ended, and answers whether it did: nothing is written when one of them
-- has a row.
CREATE FUNCTION windlass.end_open_1(
    p_now bigint, p_seqs bigint[], p_results text[], p_fence bigint, p_started bigint, p_worker text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.runs (seq, fence, started_ms, ended_ms, attempt, state, deduped, worker, result)
    SELECT u.seq, p_fence, p_started, p_now, 1, 2, false, p_worker, u.result
      FROM unnest(p_seqs, p_results) AS u(seq, result);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RETURN false;
END $$;

-- The same for a few jobs of each of some claims. Answers with a label for each.
CREATE FUNCTION windlass.complete_claims_1(
    p_now bigint, p_seqs bigint[], p_fences bigint[], p_results text[], p_claims bigint[], p_at integer[])
RETURNS TABLE (ords bigint[], labels text[], freed boolean) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    o record;
    v_rows bigint[];
BEGIN
    SELECT array_agg(u.seq) AS seqs, array_agg(u.ord) AS ords, array_agg(u.claim) AS claims,
        array_agg(u.label) AS labels,
           array_agg(u.fence) AS fences, array_agg(u.started_ms) AS started, array_agg(u.worker) AS workers INTO o
      FROM (SELECT u.seq, u.ord, u.claim, k.label, k.fence, k.started_ms, k.worker
              FROM unnest(p_seqs, p_fences, p_claims, p_at) WITH ORDINALITY AS u(seq, fence, claim, at, ord)
              JOIN windlass.claims k ON k.number = u.claim
             WHERE k.due_ms IS NOT NULL AND k.open > 0 AND k.seqs[u.at] = u.seq AND u.fence = k.fence
             ORDER BY k.number FOR UPDATE OF k) u;
    -- Asked once the claims are held.
    SELECT array_agg(r.seq) INTO v_rows FROM windlass.runs r WHERE r.seq = ANY (o.seqs);
    IF v_rows IS NOT NULL THEN
        SELECT array_agg(u.seq) AS seqs, array_agg(u.ord) AS ords, array_agg(u.claim) AS claims,
               array_agg(u.label) AS labels, array_agg(u.fence) AS fences, array_agg(u.started) AS started,
               array_agg(u.worker) AS workers INTO o
          FROM unnest(o.seqs, o.ords, o.claims, o.labels, o.fences, o.started, o.workers)
               AS u(seq, ord, claim, label, fence, started, worker)
         WHERE u.seq <> ALL (v_rows);
    END IF;
    IF o.ords IS NULL THEN
        RETURN;
    END IF;
    freed := EXISTS (SELECT FROM unnest(o.labels) AS l(label) WHERE split_part(l.label, chr(31), 3) = 'k')
         AND windlass.free_keys_1(o.seqs);
    INSERT INTO windlass.runs (seq, fence, started_ms, ended_ms, attempt, state, deduped, worker, result)
    SELECT u.seq, u.fence, u.started, p_now, 1, 2, false, u.worker, p_results[u.ord]
      FROM unnest(o.seqs, o.fences, o.started, o.workers, o.ords) AS u(seq, fence, started, worker, ord);
    UPDATE windlass.claims k
       SET open = k.open - u.jobs, due_ms = CASE WHEN k.open > u.jobs OR NOT k.whole THEN k.due_ms END
      FROM (SELECT u.claim, count(*) AS jobs FROM unnest(o.claims) AS u(claim) GROUP BY u.claim) u
     WHERE k.number = u.claim;
    ords := o.ords;
    labels := o.labels;
    RETURN NEXT;
END $$;

-- Completes those of these jobs that claims hold open, each by the claim and the place in it that are named. Answers
-- with their places among those asked for (nothing when it is all of them, in their order), and with what their gates
-- stand for: once, when it is the same for all.
CREATE FUNCTION windlass.complete_open_2(
    p_now bigint, p_seqs bigint[], p_fences bigint[], p_results text[], p_claims bigint[], p_at integer[])
RETURNS TABLE (ords bigint[], labels text[], freed boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    c record;
    r record;
BEGIN
    IF cardinality(p_seqs) >= 8 AND array_remove(p_claims, p_claims[1]) = '{}' THEN
        RETURN QUERY SELECT o.ords, ARRAY[o.label], o.freed
           FROM windlass.complete_claim_1(p_now, p_seqs, p_fences, p_results, p_claims[1], p_at) o;
        RETURN;
    END IF;
    SELECT count(DISTINCT u.claim) AS claims, count(*) AS jobs INTO c
      FROM unnest(p_claims) AS u(claim) WHERE u.claim IS NOT NULL;
    IF c.jobs < 32 * c.claims THEN
        SELECT * INTO r FROM windlass.complete_claims_1(p_now, p_seqs, p_fences, p_results, p_claims, p_at);
        ords := r.ords;
        labels := r.labels;
        freed := r.freed;
    ELSE
        freed := false;
        FOR c IN SELECT u.claim, array_agg(u.ord) AS ords, array_agg(u.seq) AS seqs, array_agg(u.fence) AS fences,
                        CASE WHEN p_results IS NOT NULL THEN array_agg(u.result) END AS results, array_agg(u.at) AS at
                   FROM unnest(p_claims, p_seqs, p_fences, p_results, p_at) WITH ORDINALITY
                        AS u(claim, seq, fence, result, at, ord)
                  WHERE u.claim IS NOT NULL GROUP BY u.claim ORDER BY u.claim
        LOOP
            SELECT * INTO r FROM windlass.complete_claim_1(p_now, c.seqs, c.fences, c.results, c.claim, c.at);
            CONTINUE WHEN NOT FOUND;
            c.ords := CASE WHEN r.ords IS NULL THEN c.ords ELSE ARRAY(
                SELECT c.ords[u.ord] FROM unnest(r.ords) WITH ORDINALITY AS u(ord, n) ORDER BY u.n) END;
            ords := ords || c.ords;
            labels := labels || array_fill(r.label, ARRAY[cardinality(c.ords)]);
            freed := freed OR r.freed;
        END LOOP;
    END IF;
    IF ords IS NULL THEN
        RETURN;
    END IF;
    IF cardinality(ords) = cardinality(p_seqs) AND array_remove(labels, labels[1]) = '{}' THEN
        ords := NULL;
        labels := labels[1:1];
    END IF;
    RETURN NEXT;
END $$;

-- Completes those of these jobs that have rows of their own. Answers as the others do, and whether one has a dedupe
-- key.
CREATE FUNCTION windlass.complete_rows_1(p_now bigint, p_seqs bigint[], p_fences bigint[], p_results text[])
RETURNS TABLE (ords bigint[], labels text[], deduped boolean, freed boolean) LANGUAGE plpgsql
{planned} AS $$
#variable_conflict use_column
DECLARE
    v_queues text[];
    v_keys text[];
    v_held bigint[];
    v_seqs bigint[];
    v_ended text[];
BEGIN
    -- A key must be locked before its job, and is let go with it.
    WITH freed AS (
        UPDATE windlass.keys k SET holder = NULL
          FROM (SELECT split_part(r.label, chr(31), 1) AS queue, r.key, r.seq
                  FROM unnest(p_seqs, p_fences) AS u(seq, fence)
                  JOIN windlass.runs r ON r.seq = u.seq AND r.fence = u.fence
                 WHERE r.key IS NOT NULL AND r.state = 1 ORDER BY 1, 2) u
         WHERE k.queue = u.queue AND k.key = u.key AND k.holder = u.seq
        RETURNING k.queue, k.key, u.seq
    )
    SELECT array_agg(f.queue), array_agg(f.key), array_agg(f.seq) INTO v_queues, v_keys, v_held FROM freed f;
    WITH done AS (
        UPDATE windlass.runs r
           SET state = 2, ended_ms = p_now, result = l.result, lease_ms = NULL, expires_ms = NULL, marked_ms = NULL,
               cancel_requested = false
          FROM (SELECT u.seq, u.fence, u.result, u.ord, 1 AS running
                  FROM unnest(p_seqs, p_fences, p_results) WITH ORDINALITY AS u(seq, fence, result, ord)
                 ORDER BY u.seq) l
         WHERE r.seq = l.seq AND r.state = l.running AND r.fence = l.fence
        RETURNING r.seq, l.ord, r.label, r.key, r.deduped
    )
    SELECT array_agg(d.seq), array_agg(d.ord), array_agg(d.label), bool_or(d.deduped), array_agg(d.key)
      INTO v_seqs, ords, labels, deduped, v_ended FROM done d;
    freed := false;
    IF v_keys IS NOT NULL THEN
        -- Somebody was faster, and has given a job to somebody else meanwhile.
        UPDATE windlass.keys k SET holder = u.seq
          FROM unnest(v_queues, v_keys, v_held) AS u(queue, key, seq) JOIN windlass.runs n ON n.seq = u.seq
         WHERE k.queue = u.queue AND k.key = u.key AND n.state = 1;
        SELECT windlass.expose_1(array_agg(split_part(u.label, chr(31), 1)), array_agg(u.key), true, NULL) INTO freed
          FROM unnest(labels, v_ended) AS u(label, key) WHERE u.key IS NOT NULL HAVING count(*) > 0;
    END IF;
    IF ords IS NOT NULL THEN
        freed := coalesce(freed, false);
        RETURN NEXT;
    END IF;
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
-- were all and they are told of here (p_told: the order for that), with which. p_seqs, p_claims and p_at are what their
-- tickets say: the number of a job, the claim that holds it open, and its place in that.
CREATE FUNCTION windlass.complete_2(
    p_now bigint, p_ids uuid[], p_fences bigint[], p_results text[], p_told uuid[],
    p_seqs bigint[], p_claims bigint[], p_at integer[])
RETURNS TABLE (done bigint, ids uuid[], queues text[], freed boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := windlass.begin_1(p_now);
    v_seqs bigint[] := windlass.numbers_1(p_ids, p_seqs);
    v_left bigint[] := v_seqs;
    v_ords bigint[];
    v_labels text[];
    v_deduped boolean := false;
    v_freed boolean := false;
    r record;
BEGIN
    IF p_claims IS NOT NULL THEN
        SELECT * INTO r FROM windlass.complete_open_2(v_now, v_seqs, p_fences, p_results, p_claims, p_at);
        v_ords := r.ords;
        v_labels := r.labels;
        v_freed := coalesce(r.freed, false);
    END IF;
    IF v_labels IS NOT NULL AND v_ords IS NULL THEN
        ids := p_ids;
        done := cardinality(p_ids);
    ELSE
        IF v_ords IS NOT NULL THEN
            IF cardinality(v_labels) = 1 THEN
                v_labels := array_fill(v_labels[1], ARRAY[cardinality(v_ords)]);
            END IF;
            v_left := ARRAY(SELECT CASE WHEN u.ord NOT IN (SELECT unnest(v_ords)) THEN u.seq END
                              FROM unnest(v_seqs) WITH ORDINALITY AS u(seq, ord) ORDER BY u.ord);
        END IF;
        PERFORM windlass.unpack_1(v_left);
        SELECT * INTO r FROM windlass.complete_rows_1(v_now, v_left, p_fences, p_results);
        v_ords := v_ords || r.ords;
        v_labels := v_labels || r.labels;
        v_deduped := coalesce(r.deduped, false);
        v_freed := v_freed OR coalesce(r.freed, false);
        SELECT array_agg(p_ids[u.ord] ORDER BY u.n), array_agg(v_seqs[u.ord] ORDER BY u.n) INTO ids, v_seqs
          FROM unnest(v_ords) WITH ORDINALITY AS u(ord, n);
        done := coalesce(cardinality(v_ords), 0);
    END IF;
    freed := v_freed;
    IF done > 0 THEN
        IF v_deduped THEN
            PERFORM windlass.free_dedupe_keys_1(v_seqs);
        END IF;
        freed := windlass.completed_1(v_now, p_told, ids, v_seqs, v_labels) OR v_freed;
    END IF;
    IF p_told IS NOT NULL AND done = cardinality(p_ids) THEN
        ids := NULL;
    ELSE
        queues := windlass.queues_of_1(v_labels);
        IF cardinality(queues) < done THEN
            queues := array_fill(queues[1], ARRAY[done::integer]);
        END IF;
    END IF;
    RETURN NEXT;
END $$;
