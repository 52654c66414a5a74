-- Places in line: the rows of "ready" and "delayed" that queued jobs stand in.

-- Locks the places in line of queued jobs. Those that wait for their key are safe
-- behind its lock. One of the others can move while its row is waited for: from
-- "delayed" to "ready", and there to another row when a claim takes some of its
-- row; so this is done until all that are queued are held.
CREATE FUNCTION windlass.lock_places_1(p_ids uuid[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_queued bigint;
    v_held bigint;
BEGIN
    FOR round IN 1 .. 1000 LOOP
        SELECT count(*) INTO v_queued FROM windlass.jobs_1 j WHERE j.id = ANY (p_ids) AND j.state = 0 AND j.key IS NULL;
        SELECT count(*) INTO v_held FROM (
            SELECT j.key FROM windlass.jobs j LEFT JOIN windlass.runs r ON r.seq = j.seq
              JOIN windlass.delayed d ON d.queue = j.queue AND d.run_at_ms = coalesce(r.run_at_ms, j.run_at_ms) AND d.seq = j.seq
             WHERE j.id = ANY (p_ids) ORDER BY j.seq FOR UPDATE OF d) d
         WHERE d.key IS NULL;
        EXIT WHEN v_held >= v_queued;
        SELECT v_held + count(*) INTO v_held
          FROM (SELECT j.seq, windlass.room_1(j.queue, j.kind) AS room, j.gate, j.rank FROM windlass.jobs j WHERE j.id = ANY (p_ids) AND j.key IS NULL ORDER BY j.seq) j
         CROSS JOIN LATERAL (
               SELECT h.ctid FROM windlass.ready h
                WHERE h.room = j.room AND h.gate = j.gate AND h.rank = j.rank
                  AND h.seq <= j.seq AND (h.seq = j.seq OR j.seq = ANY (h.more_seqs))
                ORDER BY h.gate, h.rank, h.seq DESC LIMIT 1 FOR UPDATE) h;
        EXIT WHEN v_held >= v_queued;
        IF round = 1000 THEN
            RAISE EXCEPTION 'the places of these jobs change too fast' USING ERRCODE = '40001';
        END IF;
    END LOOP;
END $$;

-- Takes a job out of its row of "ready".
CREATE FUNCTION windlass.unready_1(p_room bigint, p_gate bigint, p_rank bigint, p_seq bigint) RETURNS void LANGUAGE plpgsql
{planned} AS $$
BEGIN
    WITH gone AS (
        DELETE FROM windlass.ready h WHERE h.ctid = (
            SELECT h.ctid FROM windlass.ready h
             WHERE h.room = p_room AND h.gate = p_gate AND h.rank = p_rank
               AND h.seq <= p_seq AND (h.seq = p_seq OR p_seq = ANY (h.more_seqs))
             ORDER BY h.gate, h.rank, h.seq DESC LIMIT 1)
        RETURNING h.*
    )
    INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, more_seqs, more_ids)
    SELECT g.gate, g.rank, u.seqs[1], u.ids[1], g.fence, g.run_at_ms, g.known, g.deduped, g.label,
           nullif(u.seqs[2:], '{}'), nullif(u.ids[2:], '{}')
      FROM gone g
     CROSS JOIN LATERAL (
           SELECT array_agg(u.seq ORDER BY u.ord) AS seqs, array_agg(u.id ORDER BY u.ord) AS ids
             FROM unnest(g.seq || g.more_seqs, g.id || g.more_ids) WITH ORDINALITY AS u(seq, id, ord)
            WHERE u.seq <> p_seq) u
     WHERE u.seqs IS NOT NULL;
END $$;

-- Cuts the shared row in whose midst a job is to stand, so that rows stand in the
-- order of their jobs: a job that comes back is claimed before those that were
-- accepted after it. Only the row before it can reach beyond it.
CREATE FUNCTION windlass.cut_1(p_room bigint, p_gate bigint, p_rank bigint, p_seq bigint) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_spot tid;
BEGIN
    LOOP
        SELECT h.ctid INTO v_spot FROM (
            SELECT h.ctid, h.more_seqs FROM windlass.ready h
             WHERE h.room = p_room AND h.gate = p_gate AND h.rank = p_rank AND h.seq < p_seq
             ORDER BY h.gate DESC, h.rank DESC, h.seq DESC LIMIT 1) h
         WHERE h.more_seqs[cardinality(h.more_seqs)] > p_seq;
        EXIT WHEN NOT FOUND;
        -- A claim may have taken of it meanwhile, and have written what it left as another row.
        WITH gone AS (
            DELETE FROM windlass.ready h WHERE h.ctid = v_spot RETURNING h.*
        )
        INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, more_seqs, more_ids)
        SELECT g.gate, g.rank, u.seqs[1], u.ids[1], g.fence, g.run_at_ms, g.known, g.deduped, g.label,
               nullif(u.seqs[2:], '{}'), nullif(u.ids[2:], '{}')
          FROM gone g
         CROSS JOIN LATERAL (
               SELECT array_agg(u.seq ORDER BY u.ord) AS seqs, array_agg(u.id ORDER BY u.ord) AS ids
                 FROM unnest(g.seq || g.more_seqs, g.id || g.more_ids) WITH ORDINALITY AS u(seq, id, ord)
                GROUP BY u.seq > p_seq) u;
        EXIT WHEN FOUND;
    END LOOP;
END $$;
