-- The last moment there is: 9999-12-30T22:00:00Z.
CREATE FUNCTION windlass.time_max_1() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT 253402207200000
$$;

-- A moment, held within 1970 and 9999.
CREATE FUNCTION windlass.moment_1(p_ms bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT least(greatest(p_ms, 0), 253402207200000)
$$;

-- The place of a job in the order of start; the same as eligible::rank.
CREATE FUNCTION windlass.rank_1(p_priority smallint, p_ageing_ms bigint, p_now bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_ageing_ms IS NULL THEN -p_priority::bigint * 10000000000000
                ELSE (p_now - 1577836800000) - p_priority::bigint * least(p_ageing_ms, 10000000000000) END
$$;

-- What a gate stands for: queue, kind, "k" when its jobs have keys, and the
-- budgets. Names hold no control characters, so that it can be taken apart again.
CREATE FUNCTION windlass.label_1(p_queue text, p_kind text, p_key text, p_budgets text[])
RETURNS text LANGUAGE sql STABLE AS $$
    SELECT p_queue || chr(31) || p_kind || chr(31) || CASE WHEN p_key IS NULL THEN '' ELSE 'k' END || chr(31)
        || coalesce(array_to_string(p_budgets, chr(31)), '')
$$;

-- What the gate is named after at which a job stands, by its label: those of its budgets stay that somebody has
-- defined, and of the others only that there are some. So budgets that are invented make no gates. Mirrors: pick::Gate
-- (budgets that nobody defined bound nothing). Test: budgets_that_nobody_defined_make_no_gates.
CREATE FUNCTION windlass.gate_label_1(p_label text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_parts text[] := string_to_array(p_label, chr(31));
    v_defined text[];
BEGIN
    IF v_parts[4] = '' THEN
        RETURN p_label;
    END IF;
    v_defined := ARRAY(
        SELECT n.name FROM unnest(v_parts[4:]) WITH ORDINALITY AS n(name, ord)
         WHERE EXISTS (SELECT FROM windlass.budgets b WHERE b.name = n.name) ORDER BY n.ord);
    RETURN array_to_string(v_parts[:3] || v_defined || CASE
        WHEN cardinality(v_defined) < cardinality(v_parts) - 3 THEN ARRAY[chr(30)] ELSE '{}' END, chr(31));
END $$;

-- Where the gates of a queue and kind stand in "ready"; without a kind, where those of the queue begin.
CREATE FUNCTION windlass.room_1(p_queue text, p_kind text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (hashtextextended(p_queue COLLATE "C", 0) & -4294967296)
         | (coalesce(hashtextextended(p_kind COLLATE "C", 0), 0) & 4294967295)
$$;

-- How many run, of a queue (0) or with a slot of a budget (1), or are delayed, of a queue (2).
CREATE FUNCTION windlass.running_1(p_what integer, p_name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(0, coalesce(sum(t.delta), 0))::bigint FROM windlass.tally t
     WHERE t.what = p_what AND t.name = p_name
$$;

-- Adds up the rows of what has more than p_rows of them. Who takes a row away
-- adds what was in it, so that nobody who counts sees a change.
CREATE FUNCTION windlass.fold_1(p_rows bigint) RETURNS void LANGUAGE sql AS $$
    WITH many AS MATERIALIZED (
        SELECT t.what, t.name FROM windlass.tally t GROUP BY t.what, t.name HAVING count(*) > p_rows
    ), mine AS MATERIALIZED (
        SELECT t.ctid AS spot FROM windlass.tally t JOIN many m ON m.what = t.what AND m.name = t.name
           FOR UPDATE OF t SKIP LOCKED
    ), gone AS (
        DELETE FROM windlass.tally t USING mine m WHERE t.ctid = m.spot RETURNING t.what, t.name, t.delta, t.queued
    )
    INSERT INTO windlass.tally (what, name, delta, queued)
    SELECT g.what, g.name, sum(g.delta), sum(g.queued) FROM gone g GROUP BY g.what, g.name
    HAVING sum(g.delta) <> 0 OR sum(g.queued) <> 0
$$;

-- Corrects how many jobs of each queue are counted as queued, by what is there. One statement sees one moment, in which
-- whoever has committed has both moved jobs and counted them: so nobody has to wait. Programs of the schema before may
-- have moved some without counting while this one was installed; nobody else calls it, so that an audit finds what is
-- counted wrongly. Mirrors: nothing. Test: what_a_program_of_before_moved_is_counted_later.
CREATE FUNCTION windlass.recount_1() RETURNS void LANGUAGE sql AS $$
    INSERT INTO windlass.tally (what, name, delta, queued)
    SELECT 0, c.name, 0, sum(c.queued) FROM (
        SELECT t.name, -sum(t.queued) AS queued FROM windlass.tally t WHERE t.what = 0 GROUP BY t.name
        UNION ALL
        SELECT split_part(r.label, chr(31), 1), 1 + coalesce(cardinality(r.more_seqs), 0) FROM windlass.ready r
        UNION ALL
        SELECT w.queue, 1 FROM windlass.waiting w
        UNION ALL
        SELECT d.queue, 1 FROM windlass.delayed d) c
     GROUP BY c.name HAVING sum(c.queued) <> 0
$$;

-- Writes down that the same happened to jobs of these queues, in this order:
-- one row for each queue. Who has only one writes the row himself.
CREATE FUNCTION windlass.note_1(p_now bigint, p_what integer, p_queues text[], p_jobs uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.events (at_ms, what, queue, jobs)
    SELECT p_now, p_what, u.queue, array_agg(u.id ORDER BY u.n)
      FROM unnest(p_queues, p_jobs) WITH ORDINALITY AS u(queue, id, n)
     GROUP BY u.queue ORDER BY min(u.n);
END $$;

-- What `core::trace::TraceParent` reads: `00-TRACE-SPAN-FLAGS`, neither of them zero.
CREATE FUNCTION windlass.trace_pattern_1() RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}'
$$;

-- Meta data without the span that it comes from: what of it is the job's own content, as `core::trace::content` says.
CREATE FUNCTION windlass.meta_content_1(p_meta text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_meta ~ ('^\{"traceparent":"' || windlass.trace_pattern_1() || '"\}$') THEN NULL
                ELSE regexp_replace(p_meta, ',"traceparent":"' || windlass.trace_pattern_1() || '"\}$', '}') END
$$;
