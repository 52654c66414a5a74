-- Places in line: the rows of "ready" and "delayed" that queued jobs stand in.

-- Locks the places in line of these jobs, as far as they are queued, and answers whether that is all of those that have
-- no key: then none of them can have moved since. Before: who is open in a claim has a row, and the keys of the jobs
-- are held, so that those with keys are safe behind them. A job without a key can move while its row is waited for:
-- from "delayed" to "ready", there to another row when a claim takes some of its row, or into a claim; so this is done
-- until all that are queued are held. Mirrors: nothing; core moves one job at a time. Test:
-- a_cancel_of_many_writes_each_shared_row_once, conformance (cancels beside claims).
CREATE FUNCTION windlass.lock_places_2(p_seqs bigint[]) RETURNS boolean LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_queued bigint[];
    v_plain bigint;
    v_held bigint[];
    v_count bigint;
BEGIN
    FOR round IN 1 .. 1000 LOOP
        SELECT array_agg(j.seq ORDER BY j.seq) FILTER (WHERE coalesce(r.state, 0) = 0), count(*) INTO v_queued, v_plain
          FROM windlass.jobs j LEFT JOIN windlass.runs r ON r.seq = j.seq WHERE j.seq = ANY (p_seqs) AND j.key IS NULL;
        SELECT array_agg(d.seq) FILTER (WHERE d.key IS NULL) INTO v_held FROM (
            SELECT j.seq, j.key FROM windlass.jobs j LEFT JOIN windlass.runs r ON r.seq = j.seq
              JOIN windlass.delayed d
                ON d.queue = j.queue AND d.run_at_ms = coalesce(r.run_at_ms, j.run_at_ms) AND d.seq = j.seq
             WHERE j.seq = ANY (p_seqs) ORDER BY j.seq FOR UPDATE OF d) d;
        SELECT count(*) INTO v_count
          FROM (SELECT j.seq, windlass.room_1(j.queue, j.kind) AS room, j.gate, j.rank
                  FROM (SELECT u.seq FROM unnest(v_queued) AS u(seq)
                        EXCEPT SELECT h.seq FROM unnest(v_held) AS h(seq)) q
                  JOIN windlass.jobs j ON j.seq = q.seq ORDER BY j.seq) j
         CROSS JOIN LATERAL (
               SELECT h.ctid FROM windlass.ready h
                WHERE h.room = j.room AND h.gate = j.gate AND h.rank = j.rank
                  AND h.seq <= j.seq AND (h.seq = j.seq OR j.seq = ANY (h.more_seqs))
                ORDER BY h.gate, h.rank, h.seq DESC LIMIT 1 FOR UPDATE) h;
        IF coalesce(cardinality(v_held), 0) + v_count >= coalesce(cardinality(v_queued), 0) THEN
            RETURN v_plain = coalesce(cardinality(v_queued), 0);
        END IF;
        -- One that a claim has taken meanwhile is queued no more.
        PERFORM windlass.unpack_1(p_seqs);
    END LOOP;
    RAISE EXCEPTION 'the places of these jobs change too fast' USING ERRCODE = '40001';
END $$;

-- Takes jobs out of their rows of "ready", and writes each row that had more of them once, with the others. Before: the
-- jobs stand there, and their rows are held. Mirrors: nothing; in core a job that moves is not in line any more.
-- Test: a_cancel_of_many_writes_each_shared_row_once.
CREATE FUNCTION windlass.unready_2(p_moved windlass.moved[]) RETURNS void LANGUAGE plpgsql
{planned} AS $$
DECLARE
    v_spots tid[];
BEGIN
    SELECT array_agg(DISTINCT h.spot) INTO v_spots FROM unnest(p_moved) AS s CROSS JOIN LATERAL (
        SELECT h.ctid AS spot FROM windlass.ready h
         WHERE h.room = s.room AND h.gate = s.gate AND h.rank = s.rank
           AND h.seq <= s.seq AND (h.seq = s.seq OR s.seq = ANY (h.more_seqs))
         ORDER BY h.gate, h.rank, h.seq DESC LIMIT 1) h;
    WITH gone AS (
        DELETE FROM windlass.ready h WHERE h.ctid = ANY (v_spots) RETURNING h.*
    )
    INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label, more_seqs, more_ids)
    SELECT g.gate, g.rank, u.seqs[1], u.ids[1], g.fence, g.run_at_ms, g.known, g.deduped, g.label,
           nullif(u.seqs[2:], '{}'), nullif(u.ids[2:], '{}')
      FROM gone g
     CROSS JOIN LATERAL (
           SELECT array_agg(u.seq ORDER BY u.ord) AS seqs, array_agg(u.id ORDER BY u.ord) AS ids
             FROM unnest(g.seq || g.more_seqs, g.id || g.more_ids) WITH ORDINALITY AS u(seq, id, ord)
            WHERE u.seq NOT IN (SELECT s.seq FROM unnest(p_moved) AS s)) u
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
