-- Jobs whose budgets were defined, or deleted, since they came to their gates.

-- Moves jobs to the gates where they belong by now, those without keys. Before: nobody else can take their rows, which
-- are locked. Each gets a row of its own, so that no row of the new gate reaches over one of them.
-- Plans as its caller says. Mirrors: nothing; in core a gate follows from what is defined. Test: conformance (budgets
-- that are defined late).
CREATE FUNCTION windlass.regate_rows_1(p_epoch windlass.epoch, p_spots tid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_seqs bigint[];
    v_gates bigint[];
BEGIN
    -- What was accepted before the epoch began is none of its own, whenever its id was made.
    SELECT array_agg(j.seq), array_agg(hashtextextended(windlass.gate_label_1(h.label), CASE
               WHEN j.seq >= p_epoch.first_seq THEN
                   windlass.seed_2(p_epoch, j.created_ms, j.id, j.key, j.dedupe_key) ELSE 0 END))
      INTO v_seqs, v_gates
      FROM windlass.ready h CROSS JOIN unnest(h.seq || h.more_seqs) AS u(seq) JOIN windlass.jobs j ON j.seq = u.seq
     WHERE h.ctid = ANY (p_spots);
    PERFORM windlass.cut_1(windlass.room_1(j.queue, j.kind), u.gate, j.rank, j.seq)
       FROM unnest(v_seqs, v_gates) AS u(seq, gate) JOIN windlass.jobs j ON j.seq = u.seq;
    WITH gone AS (
        DELETE FROM windlass.ready h WHERE h.ctid = ANY (p_spots) RETURNING h.*
    ), moved AS (
        UPDATE windlass.jobs j SET gate = u.gate FROM unnest(v_seqs, v_gates) AS u(seq, gate) WHERE j.seq = u.seq
        RETURNING j.seq, j.id, j.gate
    )
    INSERT INTO windlass.ready (gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
    SELECT m.gate, g.rank, m.seq, m.id, g.fence, g.run_at_ms, g.known, g.deduped, g.label
      FROM gone g CROSS JOIN unnest(g.seq || g.more_seqs) AS u(seq) JOIN moved m ON m.seq = u.seq;
END $$;

-- The same for those with keys: they wait at the new gate, and what is best of each gate of their keys is ready again.
-- Before: their rows are locked, and their keys, which nobody holds. Plans as its caller says.
CREATE FUNCTION windlass.regate_keyed_1(p_spots tid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_queues text[];
    v_keys text[];
BEGIN
    WITH gone AS (
        DELETE FROM windlass.ready h WHERE h.ctid = ANY (p_spots)
        RETURNING h.*, split_part(h.label, chr(31), 1) AS queue,
                  hashtextextended(windlass.gate_label_1(h.label), 0) AS gate_now
    ), moved AS (
        UPDATE windlass.jobs j SET gate = g.gate_now FROM gone g WHERE j.seq = g.seq
    ), crossed AS (
        UPDATE windlass.keys k SET gate = NULL FROM gone g WHERE k.queue = g.queue AND k.key = g.key
    ), behind AS (
        INSERT INTO windlass.waiting (queue, key, gate, rank, seq, id, fence, run_at_ms, known, deduped, label)
        SELECT g.queue, g.key, g.gate_now, g.rank, g.seq, g.id, g.fence, g.run_at_ms, g.known, g.deduped, g.label
          FROM gone g
    )
    SELECT array_agg(g.queue), array_agg(g.key) INTO v_queues, v_keys FROM gone g;
    PERFORM windlass.expose_1(v_queues, v_keys, false, NULL);
END $$;

-- Looks at the first rows of gates that stand for budgets, so many of each, moves those that belong elsewhere by now,
-- at most p_max, and answers how many. What others hold stays: no claim takes it where it does not belong (is_of_1).
-- Plans as its caller says. Mirrors: nothing; in core a gate follows from what is defined. Test: conformance (budgets
-- that are defined late), budgets_that_are_defined_late_bind.
CREATE FUNCTION windlass.regate_1(p_epoch windlass.epoch, p_gates windlass.gates, p_rows integer, p_max integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_strays tid[];
    v_spots tid[];
    v_moved integer := 0;
BEGIN
    SELECT array_agg(s.spot) INTO v_strays FROM (
        SELECT h.spot FROM unnest(p_gates.rooms, p_gates.gates, p_gates.budgets) AS g(room, gate, names)
         CROSS JOIN LATERAL (
               SELECT h.ctid AS spot, windlass.gate_label_1(h.label) AS label FROM windlass.ready h
                WHERE h.room = g.room AND h.gate = g.gate ORDER BY h.rank, h.seq LIMIT p_rows) h
         WHERE g.names <> '' AND g.gate <> hashtextextended(h.label, 0)
           AND g.gate <> hashtextextended(h.label, coalesce(p_epoch.number, 0))
         LIMIT p_max) s;
    IF v_strays IS NULL THEN
        RETURN 0;
    END IF;
    v_spots := ARRAY(SELECT h.ctid FROM windlass.ready h WHERE h.ctid = ANY (v_strays) AND h.key IS NULL
                        FOR UPDATE SKIP LOCKED);
    IF v_spots <> '{}' THEN
        PERFORM windlass.regate_rows_1(p_epoch, v_spots);
        v_moved := cardinality(v_spots);
    END IF;
    v_spots := ARRAY(SELECT h.ctid FROM windlass.ready h
                       JOIN windlass.keys k ON k.queue = split_part(h.label, chr(31), 1) AND k.key = h.key
                        AND k.holder IS NULL
                      WHERE h.ctid = ANY (v_strays) AND h.key IS NOT NULL FOR UPDATE SKIP LOCKED);
    IF v_spots <> '{}' THEN
        PERFORM windlass.regate_keyed_1(v_spots);
    END IF;
    RETURN v_moved + cardinality(v_spots);
END $$;
