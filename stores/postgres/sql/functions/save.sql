-- What core decided is written back: the rows of the jobs, their places in line, and all that is counted.

-- Writes back jobs that moved, deletes what its queue does not keep, exposes what waited behind the keys, and notes the
-- events. Before: the jobs are locked by windlass.lock_jobs_1, and with them their keys and their places. Afterwards
-- each queued one stands in one place, and what is counted is what is there.
-- Mirrors: what Book does with a Moved. Test: conformance (every move), an_audit_finds_what_contradicts_itself.
CREATE FUNCTION windlass.save_1(p_now bigint, p_rows json, p_events json) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_moved windlass.moved[] := windlass.save_runs_1(p_rows);
    v_queues text[];
    v_keys text[];
    v_doomed bigint[];
    v_over bigint[];
BEGIN
    PERFORM windlass.leave_line_1(v_moved);
    PERFORM windlass.join_line_1(p_now, v_moved);
    PERFORM windlass.count_moved_1(v_moved);
    SELECT array_agg(s.queue) FILTER (WHERE s.key IS NOT NULL), array_agg(s.key) FILTER (WHERE s.key IS NOT NULL),
           array_agg(s.seq) FILTER (WHERE s.doomed), array_agg(s.seq) FILTER (WHERE s.was = 1 AND s.state <> 1)
      INTO v_queues, v_keys, v_doomed, v_over FROM unnest(v_moved) AS s;
    IF v_over IS NOT NULL THEN
        PERFORM windlass.ungrant_1(v_over);
    END IF;
    IF v_doomed IS NOT NULL THEN
        PERFORM windlass.delete_1(v_doomed);
    END IF;
    IF v_keys IS NOT NULL THEN
        PERFORM windlass.expose_1(v_queues, v_keys, false, NULL);
    END IF;
    PERFORM windlass.note_all_1(p_now, p_events);
END $$;

-- Writes the rows of jobs that moved, and answers with what they were and are: the only statement that reads what the
-- program sent. Before: the jobs are locked, and none is open in a grant. Mirrors: nothing, it is a codec (SavedRow).
-- Test: conformance (every move).
CREATE FUNCTION windlass.save_runs_1(p_rows json) RETURNS windlass.moved[] LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_moved windlass.moved[];
BEGIN
    WITH saved AS MATERIALIZED (
        SELECT r.*, j.id, j.queue, j.kind, j.key, j.dedupe_key, j.budgets, j.gate, j.rank,
               windlass.label_1(j.queue, j.kind, j.key, j.budgets) AS label,
               coalesce(o.state, 0)::smallint AS was, coalesce(o.run_at_ms, j.run_at_ms) AS was_due,
               o.ended_ms AS was_ended
          FROM json_to_recordset(p_rows) AS r(
               seq bigint, run_at_ms bigint, state smallint, attempt integer, crashes integer, fence bigint,
               retries integer, started_ms bigint, worker text, lease_ms bigint, expires_ms bigint,
               cancel_requested boolean, marked_ms bigint, ended_ms bigint, failure smallint, result text,
               progress text, history text, doomed boolean)
          JOIN windlass.jobs j ON j.seq = r.seq
          LEFT JOIN windlass.runs o ON o.seq = r.seq
    ), written AS (
        INSERT INTO windlass.runs (
               seq, fence, run_at_ms, started_ms, lease_ms, expires_ms, ended_ms, attempt, crashes, retries, state,
               failure, cancel_requested, marked_ms, deduped, label, key, worker, result, progress, history)
        SELECT s.seq, s.fence, s.run_at_ms, s.started_ms, s.lease_ms, s.expires_ms, s.ended_ms, s.attempt, s.crashes,
               s.retries, s.state, s.failure, s.cancel_requested, s.marked_ms, s.dedupe_key IS NOT NULL, s.label, s.key,
               s.worker, s.result, s.progress, s.history
          FROM saved s
        ON CONFLICT (seq) DO UPDATE
           SET fence = excluded.fence, run_at_ms = excluded.run_at_ms, started_ms = excluded.started_ms,
               lease_ms = excluded.lease_ms, expires_ms = excluded.expires_ms, ended_ms = excluded.ended_ms,
               attempt = excluded.attempt, crashes = excluded.crashes, retries = excluded.retries,
               state = excluded.state, failure = excluded.failure, cancel_requested = excluded.cancel_requested,
               marked_ms = excluded.marked_ms, worker = excluded.worker, result = excluded.result,
               progress = excluded.progress, history = excluded.history, label = excluded.label, key = excluded.key
    )
    SELECT array_agg(ROW (
               s.seq, s.id, s.queue, s.key, s.dedupe_key, s.budgets, windlass.room_1(s.queue, s.kind), s.gate, s.rank,
               s.label, s.was, s.was_due, s.was_ended, s.state, s.run_at_ms, s.fence, s.ended_ms, s.doomed
           )::windlass.moved)
      INTO v_moved FROM saved s;
    RETURN v_moved;
END $$;

-- Takes jobs that were queued out of their places. Before: their places and keys are held. Afterwards they stand
-- nowhere. Mirrors: nothing; in core a place follows from the state. Test: conformance (cancel, run now, delete).
CREATE FUNCTION windlass.leave_line_1(p_moved windlass.moved[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_ready windlass.moved[];
BEGIN
    IF NOT EXISTS (SELECT FROM unnest(p_moved) AS s WHERE s.was = 0) THEN
        RETURN;
    END IF;
    WITH not_delayed AS (
        DELETE FROM windlass.delayed d USING unnest(p_moved) AS s
         WHERE s.was = 0 AND d.queue = s.queue AND d.run_at_ms = s.was_due AND d.seq = s.seq
        RETURNING d.seq
    ), not_waiting AS (
        DELETE FROM windlass.waiting w USING unnest(p_moved) AS s
         WHERE s.was = 0 AND w.queue = s.queue AND w.key = s.key AND w.gate = s.gate AND w.rank = s.rank
             AND w.seq = s.seq
        RETURNING w.seq
    )
    SELECT array_agg(s) INTO v_ready FROM unnest(p_moved) AS s
     WHERE s.was = 0 AND s.seq NOT IN (SELECT d.seq FROM not_delayed d UNION ALL SELECT w.seq FROM not_waiting w);
    IF v_ready IS NOT NULL THEN
        PERFORM windlass.unready_2(v_ready);
    END IF;
END $$;

-- Gives places to jobs that are queued now: those with keys wait for windlass.expose_1. Before: they stand nowhere.
-- Mirrors: nothing; in core a place follows from the state. Test: conformance (retry, release, park, run now).
CREATE FUNCTION windlass.join_line_1(p_now bigint, p_moved windlass.moved[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM unnest(p_moved) AS s WHERE s.state = 0) THEN
        RETURN;
    END IF;
    PERFORM windlass.cut_1(s.room, s.gate, s.rank, s.seq) FROM unnest(p_moved) AS s
      WHERE s.state = 0 AND s.run_at_ms <= p_now AND s.key IS NULL;
    WITH to_delayed AS (
        INSERT INTO windlass.delayed (run_at_ms, seq, queue)
        SELECT s.run_at_ms, s.seq, s.queue FROM unnest(p_moved) AS s WHERE s.state = 0 AND s.run_at_ms > p_now
    ), to_waiting AS (
        INSERT INTO windlass.waiting (queue, key, gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
        SELECT s.queue, s.key, s.gate, s.rank, s.seq, s.id, s.fence + 1, s.run_at_ms, true, s.dedupe_key IS NOT NULL,
               s.label
          FROM unnest(p_moved) AS s WHERE s.state = 0 AND s.run_at_ms <= p_now AND s.key IS NOT NULL
    )
    INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
    SELECT s.gate, s.rank, s.seq, s.id, s.fence + 1, s.run_at_ms, true, s.dedupe_key IS NOT NULL, s.label
      FROM unnest(p_moved) AS s WHERE s.state = 0 AND s.run_at_ms <= p_now AND s.key IS NULL;
END $$;

-- Counts what moved, lists what has ended and is kept, takes off that list what lives again, and lets go of keys and
-- dedupe keys. Before: the keys are held. Mirrors: what Book counts, which there follows from the states.
-- Test: conformance (each sequence ends with an audit).
CREATE FUNCTION windlass.count_moved_1(p_moved windlass.moved[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_risen record;
BEGIN
    WITH dedupe AS (
        UPDATE windlass.jobs j SET dedupe_held = CASE WHEN s.state < 2 THEN j.dedupe_key END
          FROM unnest(p_moved) AS s
         WHERE j.seq = s.seq AND s.dedupe_key IS NOT NULL AND (s.was < 2) <> (s.state < 2)
    ), counted AS (
        INSERT INTO windlass.tally (what, name, delta, queued)
        SELECT 0, s.queue, -count(*) FILTER (WHERE s.was = 1 AND s.state <> 1),
               count(*) FILTER (WHERE s.state = 0) - count(*) FILTER (WHERE s.was = 0)
          FROM unnest(p_moved) AS s WHERE s.was <> s.state GROUP BY s.queue
        UNION ALL
        SELECT 1, b.name, -count(*), 0 FROM unnest(p_moved) AS s CROSS JOIN unnest(s.budgets) AS b(name)
         WHERE s.was = 1 AND s.state <> 1 GROUP BY b.name
    ), freed AS (
        UPDATE windlass.keys k SET holder = NULL FROM unnest(p_moved) AS s
         WHERE s.was = 1 AND s.state <> 1 AND k.queue = s.queue AND k.key = s.key AND k.holder = s.seq
    )
    INSERT INTO windlass.ended (queue, ended_ms, jobs, seqs)
    SELECT s.queue, s.ended_ms, count(*), array_agg(s.seq) FROM unnest(p_moved) AS s
     WHERE s.was < 2 AND s.state >= 2 AND NOT s.doomed GROUP BY s.queue, s.ended_ms;
    FOR v_risen IN SELECT s.* FROM unnest(p_moved) AS s WHERE s.was >= 2 AND s.state < 2 LOOP
        UPDATE windlass.ended e SET jobs = e.jobs - 1, seqs = array_remove(e.seqs, v_risen.seq)
         WHERE e.queue = v_risen.queue AND e.ended_ms = v_risen.was_ended AND v_risen.seq = ANY (e.seqs);
        DELETE FROM windlass.ended e WHERE e.queue = v_risen.queue AND e.ended_ms = v_risen.was_ended AND e.jobs = 0;
    END LOOP;
END $$;

-- Writes down what happened. Mirrors: nothing. Test: conformance (events).
CREATE FUNCTION windlass.note_all_1(p_now bigint, p_events json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.events (at_ms, what, queue, jobs)
    SELECT p_now, e.what, e.queue, e.jobs FROM json_to_recordset(p_events) AS e(what smallint, queue text, jobs uuid[]);
END $$;
