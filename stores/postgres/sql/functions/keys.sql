-- Locks keys, in order, and makes their rows where there are none. The update
-- that hardly ever happens is what locks a row that is there, in one statement, so
-- that no prune can take it away in between. The gates are those of the jobs that
-- may be added, nothing where that is not known.
CREATE FUNCTION windlass.lock_keys_1(p_queues text[], p_keys text[], p_gates bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.keys AS k (queue, key, gate)
    SELECT u.queue COLLATE "C", u.key COLLATE "C",
           CASE WHEN min(u.gate) = max(u.gate) AND count(u.gate) = count(*) THEN min(u.gate) END
      FROM unnest(p_queues, p_keys, p_gates) AS u(queue, key, gate) GROUP BY 1, 2
     ORDER BY 1, 2
    ON CONFLICT (queue, key) DO UPDATE SET gate = NULL
     WHERE k.gate IS NOT NULL AND k.gate IS DISTINCT FROM excluded.gate;
END $$;

-- Makes the best due job of each gate of each of these locked keys one that a
-- claim can see; none of them while another of the key is running. Answers
-- whether there are more of them now. With p_freed the job that ran has just
-- ended, so that none is ready, and p_soles are the keys' only gates where that is
-- known; otherwise something was added to the keys, which may be better than what
-- is ready.
CREATE FUNCTION windlass.expose_1(p_queues text[], p_keys text[], p_freed boolean, p_soles bigint[]) RETURNS boolean
LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_queues text[] := p_queues;
    v_keys text[] := p_keys;
    v_soles bigint[] := p_soles;
    v_gates bigint[];
    v_spots tid[];
    v_freed boolean := false;
BEGIN
    IF NOT p_freed THEN
        WITH worse AS (
            DELETE FROM windlass.ready r
             USING (SELECT DISTINCT u.queue, u.key FROM unnest(p_queues, p_keys) AS u(queue, key)) k
             WHERE r.key = k.key AND r.label >= k.queue || chr(31) AND r.label < k.queue || chr(32)
               AND (SELECT w.seq FROM windlass.waiting w
                     WHERE w.queue = k.queue AND w.key = k.key AND w.gate = r.gate
                       AND (w.rank, w.seq) < (r.rank, r.seq) LIMIT 1) IS NOT NULL
            RETURNING k.queue, r.*
        )
        INSERT INTO windlass.waiting (queue, key, gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
        SELECT w.queue, w.key, w.gate, w.rank, w.seq, w.id, w.fence, w.run_at_ms, w.known, w.deduped, w.label
            FROM worse w;
        SELECT array_agg(h.queue), array_agg(h.key), array_agg(h.gate) INTO v_queues, v_keys, v_soles
          FROM (SELECT DISTINCT u.queue, u.key FROM unnest(p_queues, p_keys) AS u(queue, key)) u
          JOIN windlass.keys h ON h.queue = u.queue AND h.key = u.key
         WHERE h.holder IS NULL;
    END IF;
    -- Gate by gate, all keys together: nearly always a key has one.
    WHILE v_keys IS NOT NULL LOOP
        SELECT array_agg(b.spot), array_agg(u.queue), array_agg(u.key), array_agg(b.gate), array_agg(u.sole)
          INTO v_spots, v_queues, v_keys, v_gates, v_soles
          FROM unnest(v_queues, v_keys, v_gates, v_soles) AS u(queue, key, gate, sole)
         CROSS JOIN LATERAL (
               SELECT w.ctid AS spot, w.gate FROM windlass.waiting w
                WHERE w.queue = u.queue AND w.key = u.key AND w.gate > coalesce(u.gate, -9223372036854775808)
                ORDER BY w.queue, w.key, w.gate, w.rank, w.seq LIMIT 1) b;
        EXIT WHEN v_keys IS NULL;
        IF NOT p_freed THEN
            SELECT array_agg(u.spot) INTO v_spots
              FROM unnest(v_spots, v_queues, v_keys, v_gates) AS u(spot, queue, key, gate)
             WHERE (SELECT r.seq FROM windlass.ready r
                     WHERE r.key = u.key AND r.label >= u.queue || chr(31) AND r.label < u.queue || chr(32)
                       AND r.gate = u.gate LIMIT 1) IS NULL;
        END IF;
        WITH best AS (
            DELETE FROM windlass.waiting w WHERE w.ctid = ANY (v_spots) RETURNING w.*
        )
        INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, key)
        SELECT b.gate, b.rank, b.seq, b.id, b.fence, b.run_at_ms, b.known, b.deduped, b.label, b.key FROM best b;
        v_freed := v_freed OR FOUND;
        EXIT WHEN array_position(v_soles, NULL) IS NULL;
    END LOOP;
    RETURN v_freed;
END $$;
