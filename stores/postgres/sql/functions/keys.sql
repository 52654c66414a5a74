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
-- claim can see; none of them while another of the key is running.
CREATE FUNCTION windlass.expose_1(p_queues text[], p_keys text[]) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    -- LATERAL with LIMIT, and scalar questions instead of EXISTS: the planner may
    -- not turn these around and walk over all ready or running jobs for each key.
    UPDATE windlass.jobs j SET lane = 3
      FROM (SELECT DISTINCT queue, key FROM unnest(p_queues, p_keys) AS u(queue, key)) k
     CROSS JOIN LATERAL (
           SELECT r.seq, 1 AS ready FROM windlass.jobs r
            WHERE r.queue = k.queue AND r.key = k.key AND r.lane = 1
              AND ((SELECT h.seq FROM windlass.jobs h
                     WHERE h.queue = k.queue AND h.key = k.key AND h.state = 1 LIMIT 1) IS NOT NULL
                   OR (SELECT w.seq FROM windlass.jobs w
                        WHERE w.queue = k.queue AND w.key = k.key AND w.gate = r.gate AND w.lane = 3
                          AND (w.rank, w.seq) < (r.rank, r.seq) LIMIT 1) IS NOT NULL)
            LIMIT 10000) worse
     WHERE j.seq = worse.seq AND j.lane = worse.ready;
    UPDATE windlass.jobs j SET lane = 1
      FROM (SELECT DISTINCT queue, key FROM unnest(p_queues, p_keys) AS u(queue, key)) k
     CROSS JOIN LATERAL (
           WITH RECURSIVE best AS (
               (SELECT w.gate, w.seq FROM windlass.jobs w
                 WHERE w.queue = k.queue AND w.key = k.key AND w.lane = 3
                 ORDER BY w.gate, w.rank, w.seq LIMIT 1)
               UNION ALL
               SELECT n.gate, n.seq FROM best b CROSS JOIN LATERAL (
                   SELECT w.gate, w.seq FROM windlass.jobs w
                    WHERE w.queue = k.queue AND w.key = k.key AND w.lane = 3 AND w.gate > b.gate
                    ORDER BY w.gate, w.rank, w.seq LIMIT 1) n
           )
           SELECT b.gate, b.seq FROM best b) best
     WHERE j.seq = best.seq
       AND (SELECT h.seq FROM windlass.jobs h
             WHERE h.queue = k.queue AND h.key = k.key AND h.state = 1 LIMIT 1) IS NULL
       AND (SELECT r.seq FROM windlass.jobs r
             WHERE r.queue = k.queue AND r.key = k.key AND r.gate = best.gate AND r.lane = 1 LIMIT 1) IS NULL;
    RETURN FOUND;
END $$;
