-- Locks keys, in order, and makes their rows where there are none. The update
-- that never happens is what locks a row that is there, in one statement, so
-- that no prune can take it away in between.
CREATE FUNCTION windlass.lock_keys_1(p_queues text[], p_keys text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.keys (queue, key)
    SELECT DISTINCT k.queue COLLATE "C", k.key COLLATE "C" FROM unnest(p_queues, p_keys) AS k(queue, key)
    ORDER BY 1, 2
    ON CONFLICT (queue, key) DO UPDATE SET key = excluded.key WHERE false;
END $$;

-- Makes the best due job of each gate of each of these locked keys one that a
-- claim can see; none of them while another of the key is running. Answers
-- whether there are more of them now. With p_better something was added to the
-- keys, which may be better than what is ready.
CREATE FUNCTION windlass.expose_1(p_queues text[], p_keys text[], p_better boolean) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET jit = off AS $$
BEGIN
    IF p_better THEN
        WITH worse AS (
            DELETE FROM windlass.ready r
             USING (SELECT DISTINCT u.queue, u.key FROM unnest(p_queues, p_keys) AS u(queue, key)) k
             WHERE r.key = k.key AND split_part(r.label, chr(31), 1) = k.queue
               AND (SELECT w.seq FROM windlass.waiting w
                     WHERE w.queue = k.queue AND w.key = k.key AND w.gate = r.gate
                       AND (w.rank, w.seq) < (r.rank, r.seq) LIMIT 1) IS NOT NULL
            RETURNING k.queue, r.*
        )
        INSERT INTO windlass.waiting (queue, key, gate, rank, seq, run_at_ms, label)
        SELECT w.queue, w.key, w.gate, w.rank, w.seq, w.run_at_ms, w.label FROM worse w;
    END IF;
    -- LATERAL with LIMIT, and scalar questions instead of EXISTS: the planner may
    -- not turn these around and walk over all that waits for each key.
    WITH best AS (
        DELETE FROM windlass.waiting w
         USING (SELECT DISTINCT u.queue, u.key FROM unnest(p_queues, p_keys) AS u(queue, key)) k
         CROSS JOIN LATERAL (
               WITH RECURSIVE best AS (
                   (SELECT w.gate, w.rank, w.seq, w.label FROM windlass.waiting w
                     WHERE w.queue = k.queue AND w.key = k.key
                     ORDER BY w.gate, w.rank, w.seq LIMIT 1)
                   UNION ALL
                   SELECT n.gate, n.rank, n.seq, n.label FROM best b CROSS JOIN LATERAL (
                       SELECT w.gate, w.rank, w.seq, w.label FROM windlass.waiting w
                        WHERE w.queue = k.queue AND w.key = k.key AND w.gate > b.gate
                        ORDER BY w.gate, w.rank, w.seq LIMIT 1) n
               )
               SELECT b.gate, b.rank, b.seq FROM best b
                WHERE (SELECT r.seq FROM windlass.ready r WHERE r.key = k.key AND r.label = b.label LIMIT 1) IS NULL) b
         WHERE w.queue = k.queue AND w.key = k.key AND w.gate = b.gate AND w.rank = b.rank AND w.seq = b.seq
           AND (SELECT h.holder FROM windlass.keys h WHERE h.queue = k.queue AND h.key = k.key) IS NULL
        RETURNING w.*
    )
    INSERT INTO windlass.ready (gate, rank, seq, run_at_ms, label, key)
    SELECT b.gate, b.rank, b.seq, b.run_at_ms, b.label, b.key FROM best b;
    RETURN FOUND;
END $$;
