-- What anybody may call, inside a transaction of their own: windlass.enqueue.
-- It goes through the same gate as every other way in.

-- Refuses a call, by the name of what is wrong.
CREATE FUNCTION windlass.refuse_1(p_why text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', p_why USING ERRCODE = '22023';
END $$;

-- A name as the program accepts it: not empty, short, without control characters.
CREATE FUNCTION windlass.name_1(p_field text, p_name text, p_bytes_max integer) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF p_name IS NULL OR p_name = '' THEN
        PERFORM windlass.refuse_1(p_field || ' is empty');
    ELSIF octet_length(p_name) > p_bytes_max THEN
        PERFORM windlass.refuse_1(format('%s has %s bytes; at most %s are allowed', p_field, octet_length(p_name),
            p_bytes_max));
    ELSIF p_name ~ E'[\u0001-\u001F\u007F-\u009F]' THEN
        PERFORM windlass.refuse_1(p_field || ' contains a control character');
    END IF;
    RETURN p_name;
END $$;

-- The milliseconds of a length of time such as 700ms, 30s, 5m, 2h or 1d.
CREATE FUNCTION windlass.span_1(p_field text, p_text text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_parts text[] := regexp_match(p_text, '^([0-9]+)(ms|s|m|h|d)$');
    v_ms numeric;
BEGIN
    IF v_parts IS NULL THEN
        PERFORM windlass.refuse_1(format('%s %L is not a length of time such as 700ms, 30s, 5m, 2h or 1d', p_field,
            p_text));
    END IF;
    v_ms := v_parts[1]::numeric * CASE v_parts[2]
        WHEN 'ms' THEN 1 WHEN 's' THEN 1000 WHEN 'm' THEN 60000 WHEN 'h' THEN 3600000 ELSE 86400000 END;
    IF v_ms > 315360000000 THEN
        PERFORM windlass.refuse_1(format('%s %L is longer than 3650d', p_field, p_text));
    END IF;
    RETURN v_ms::bigint;
END $$;

-- A length of time in its shortest form, as the program writes it.
CREATE FUNCTION windlass.span_text_1(p_ms bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_ms >= 86400000 AND p_ms % 86400000 = 0 THEN p_ms / 86400000 || 'd'
                WHEN p_ms >= 3600000 AND p_ms % 3600000 = 0 THEN p_ms / 3600000 || 'h'
                WHEN p_ms >= 60000 AND p_ms % 60000 = 0 THEN p_ms / 60000 || 'm'
                WHEN p_ms >= 1000 AND p_ms % 1000 = 0 THEN p_ms / 1000 || 's'
                ELSE p_ms || 'ms' END
$$;

-- Whether a number with an exponent, or of very many digits, is one that a double can hold: too small a one is 0.
CREATE FUNCTION windlass.fits_double_1(p_number text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_parts text[];
    v_whole text;
    v_part text;
BEGIN
    PERFORM p_number::float8;
    RETURN true;
EXCEPTION WHEN numeric_value_out_of_range THEN
    -- It is far above 1 or far below: the power of ten of its first digit tells which.
    v_parts := regexp_match(p_number, '^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$');
    v_whole := ltrim(v_parts[1], '0');
    v_part := coalesce(v_parts[2], '');
    RETURN CASE WHEN v_whole <> '' THEN length(v_whole) ELSE length(ltrim(v_part, '0')) - length(v_part) END
        + coalesce(v_parts[3], '0')::numeric < 0;
END $$;

-- JSON without the spaces between its parts.
CREATE FUNCTION windlass.minified_1(p_json text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_replace(p_json, '("(?:[^"\\]|\\.)*")|[ \t\n\r]+', '\1', 'g')
$$;

-- JSON that has passed the gate, minified and otherwise as it came; mirrors json.rs of core. Text that is no JSON
-- ends the call when it is read as such, half a surrogate pair and NUL when a string or a key is.
CREATE FUNCTION windlass.gate_json_1(p_field text, p_json text, p_bytes_max integer, p_depth_max integer DEFAULT 64)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_depth integer;
    v_twins boolean;
    v_wide boolean;
    v_huge boolean;
    v_strings bigint;
BEGIN
    IF octet_length(p_json) > p_bytes_max THEN
        PERFORM windlass.refuse_1(format('%s has %s bytes; at most %s are allowed', p_field, octet_length(p_json),
            p_bytes_max));
    END IF;
    WITH RECURSIVE parts(value, sort, depth) AS (
        SELECT j.value, json_typeof(j.value), (json_typeof(j.value) IN ('object', 'array'))::integer
          FROM (SELECT btrim(p_json, E' \t\n\r')::json AS value) j
        UNION ALL
        SELECT i.value, json_typeof(i.value), p.depth + (json_typeof(i.value) IN ('object', 'array'))::integer
          FROM parts p CROSS JOIN LATERAL (
               SELECT e.value FROM json_each(CASE p.sort WHEN 'object' THEN p.value ELSE '{}' END) e
               UNION ALL
               SELECT a.value FROM json_array_elements(CASE p.sort WHEN 'array' THEN p.value ELSE '[]' END) a) i
         WHERE p.depth <= p_depth_max
    )
    SELECT max(p.depth),
           bool_or(CASE p.sort WHEN 'object' THEN (
               SELECT count(*) <> count(DISTINCT k.key COLLATE "C") FROM json_object_keys(p.value) k(key)) END),
           bool_or(CASE WHEN p.sort = 'number' AND p.value::text ~ '^-?[0-9]+$' THEN length(p.value::text) > 20
               OR p.value::text::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807 END),
           bool_or(CASE WHEN p.sort = 'number' AND (p.value::text ~ '[eE]' OR length(p.value::text) > 300)
               AND p.value::text !~ '^-?[0-9]+$' THEN NOT windlass.fits_double_1(p.value::text) END),
           count(CASE p.sort WHEN 'string' THEN p.value #>> '{}' END)
      INTO v_depth, v_twins, v_wide, v_huge, v_strings FROM parts p;
    IF v_depth > p_depth_max THEN
        PERFORM windlass.refuse_1(p_field || ' is nested deeper than ' || p_depth_max);
    ELSIF v_twins THEN
        PERFORM windlass.refuse_1(p_field || ' has an object with a duplicate key');
    ELSIF v_wide THEN
        PERFORM windlass.refuse_1(p_field || ' has an integer that does not fit into 64 bits');
    ELSIF v_huge THEN
        PERFORM windlass.refuse_1(p_field || ' has a number that is too large');
    END IF;
    RETURN windlass.minified_1(p_json);
END $$;

-- A retry rule as the program writes it; given as a ladder such as '1m 5m 1h',
-- or as an object with ladder and max_attempts.
CREATE FUNCTION windlass.retry_rule_1(p_rule json) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_is text := json_typeof(p_rule);
    v_ladder text := CASE v_is WHEN 'string' THEN p_rule #>> '{}' WHEN 'object' THEN p_rule ->> 'ladder' END;
    v_max text := CASE v_is WHEN 'object' THEN nullif((p_rule -> 'max_attempts')::text, 'null') END;
    v_unknown text;
    v_rungs text[];
BEGIN
    IF v_is = 'object' THEN
        SELECT k INTO v_unknown FROM json_object_keys(p_rule) k WHERE k NOT IN ('ladder', 'max_attempts') LIMIT 1;
    END IF;
    IF v_ladder IS NULL OR v_unknown IS NOT NULL
       OR v_is = 'object' AND json_typeof(p_rule -> 'ladder') <> 'string' THEN
        PERFORM windlass.refuse_1(
            'retry is neither a ladder such as "1m 5m" nor an object with ladder and max_attempts');
    END IF;
    IF v_max !~ '^[1-9][0-9]{0,9}$' OR v_max::numeric > 4294967295 THEN
        PERFORM windlass.refuse_1('retry has a max_attempts that is not a whole number from 1 to 4294967295');
    END IF;
    IF btrim(v_ladder, E' \t\n\r\f\v') = 'none' THEN
        v_ladder := '';
    END IF;
    SELECT array_agg(windlass.span_text_1(windlass.span_1('retry', r.rung)) ORDER BY r.ord) INTO v_rungs
      FROM regexp_split_to_table(v_ladder, '[ ,]') WITH ORDINALITY AS r(rung, ord) WHERE r.rung <> '';
    IF cardinality(v_rungs) > 100 THEN
        PERFORM windlass.refuse_1('retry has more than 100 rungs');
    END IF;
    IF v_rungs IS NULL AND v_max::numeric > 1 THEN
        PERFORM windlass.refuse_1('retry has max_attempts but no rung to wait by; give it one, such as 1m');
    END IF;
    RETURN '{"ladder":"' || coalesce(array_to_string(v_rungs, ' '), 'none') || '"'
        || coalesce(',"max_attempts":' || v_max, '') || '}';
END $$;

-- Refuses options that are unknown, or of another sort than they must be.
CREATE FUNCTION windlass.check_options_1(p_options json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_unknown text;
    v_no_text text;
BEGIN
    IF json_typeof(p_options) <> 'object' THEN
        PERFORM windlass.refuse_1('options are not an object');
    END IF;
    SELECT string_agg(e.key, ', ' ORDER BY e.key) FILTER (WHERE e.key NOT IN (
               'id', 'queue', 'priority', 'run_at', 'delay', 'key', 'dedupe_key', 'budgets', 'retry', 'timeout', 'meta',
               'traceparent')),
           string_agg(e.key, ', ' ORDER BY e.key) FILTER (WHERE json_typeof(e.value) <> 'string' AND e.key IN (
               'id', 'queue', 'run_at', 'delay', 'key', 'dedupe_key', 'timeout', 'traceparent'))
      INTO v_unknown, v_no_text FROM json_each(p_options) e;
    IF v_unknown IS NOT NULL THEN
        PERFORM windlass.refuse_1('unknown option ' || v_unknown || '; known are id, queue, priority, run_at, delay, '
            || 'key, dedupe_key, budgets, retry, timeout, meta, traceparent');
    ELSIF v_no_text IS NOT NULL THEN
        PERFORM windlass.refuse_1(v_no_text || ' must be text in quotes; leave out what is not wanted');
    ELSIF json_typeof(p_options -> 'budgets') <> 'array' OR EXISTS (
        SELECT FROM json_array_elements(
            CASE json_typeof(p_options -> 'budgets') WHEN 'array' THEN p_options -> 'budgets' END) b
         WHERE json_typeof(b.value) <> 'string') THEN
        PERFORM windlass.refuse_1('budgets are not an array of names');
    END IF;
END $$;

-- Meta data with the span that it comes from, by the rule of core's `TraceParent::put`: what is no object, names a
-- parent already, or would become too large stays as it is.
CREATE FUNCTION windlass.with_trace_1(p_meta text, p_parent text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_member text := '"traceparent":"' || p_parent || '"}';
    v_with text;
BEGIN
    IF p_parent IS NULL THEN
        RETURN p_meta;
    ELSIF p_parent !~ ('^' || windlass.trace_pattern_1() || '$') THEN
        PERFORM windlass.refuse_1('traceparent is not 00-TRACE-SPAN-FLAGS in small hexadecimal digits');
    ELSIF p_meta IS NULL OR p_meta = '{}' THEN
        RETURN '{' || v_member;
    ELSIF left(p_meta, 1) <> '{' OR (p_meta::json -> 'traceparent') IS NOT NULL THEN
        RETURN p_meta;
    END IF;
    v_with := left(p_meta, -1) || ',' || v_member;
    RETURN CASE WHEN octet_length(v_with) > 16384 THEN p_meta ELSE v_with END;
END $$;

-- An id of version 7: it says when it was made, so that ids of one session are in order, and an epoch knows its own.
CREATE FUNCTION windlass.new_id_1() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING
               substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1),
                   53, 1), 'hex')::uuid
$$;

-- Enqueues a job in the caller's own transaction: it is there when that
-- commits, and never was when it does not. Answers with the id of the job that
-- is there now. Payload and options are JSON as text, so that they are kept as
-- they came, and a key that is said twice is refused.
CREATE FUNCTION windlass.enqueue(kind text, payload text, options text DEFAULT '{}')
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    -- One deeper than the meta in it may be.
    o json := windlass.gate_json_1('options', coalesce(options, '{}'), 1048576, 65);
    v_budgets text[];
    v_run_at bigint;
    v_delay bigint;
    v_timeout bigint;
    v_priority smallint := 0;
    v_id uuid;
    v_there uuid;
BEGIN
    PERFORM windlass.check_options_1(o);
    IF payload IS NULL THEN
        PERFORM windlass.refuse_1('payload is NULL; give ''null'' for an empty one');
    END IF;
    IF (o -> 'id') IS NOT NULL THEN
        IF o ->> 'id' !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN
            PERFORM windlass.refuse_1('id is not a UUID');
        END IF;
        v_id := (o ->> 'id')::uuid;
    ELSE
        v_id := windlass.new_id_1();
    END IF;
    IF (o -> 'priority') IS NOT NULL THEN
        IF (o -> 'priority')::text !~ '^(0|-?[1-9][0-9]{0,4})$'
           OR (o ->> 'priority')::integer NOT BETWEEN -32768 AND 32767 THEN
            PERFORM windlass.refuse_1('priority is not a whole number between -32768 and 32767');
        END IF;
        v_priority := (o ->> 'priority')::smallint;
    END IF;
    IF (o -> 'run_at') IS NOT NULL AND (o -> 'delay') IS NOT NULL THEN
        PERFORM windlass.refuse_1('run_at and delay exclude each other');
    END IF;
    IF (o -> 'run_at') IS NOT NULL THEN
        IF (o ->> 'run_at') !~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$' THEN
            PERFORM windlass.refuse_1('run_at is not a moment such as 2026-01-31T12:00:00Z');
        END IF;
        v_run_at := floor(extract(epoch FROM (o ->> 'run_at')::timestamptz) * 1000)::bigint;
        IF v_run_at NOT BETWEEN 0 AND windlass.time_max_1() THEN
            PERFORM windlass.refuse_1('run_at lies outside the years 1970 to 9999');
        END IF;
    END IF;
    IF (o -> 'delay') IS NOT NULL THEN
        v_delay := windlass.span_1('delay', o ->> 'delay');
    END IF;
    IF (o -> 'timeout') IS NOT NULL THEN
        v_timeout := windlass.span_1('timeout', o ->> 'timeout');
        IF v_timeout = 0 THEN
            PERFORM windlass.refuse_1('timeout is 0; leave it out for no limit');
        END IF;
    END IF;
    IF (o -> 'budgets') IS NOT NULL THEN
        SELECT array_agg(DISTINCT windlass.name_1('budget', b.name, 128) COLLATE "C") INTO v_budgets
          FROM json_array_elements_text(o -> 'budgets') AS b(name);
        IF cardinality(v_budgets) > 8 THEN
            PERFORM windlass.refuse_1('budgets are more than 8');
        END IF;
    END IF;
    SELECT e.there INTO v_there FROM windlass.enqueue_1(
        NULL, true, ARRAY[v_id], ARRAY[windlass.name_1('kind', kind, 128)],
        ARRAY[windlass.name_1('queue', CASE WHEN (o -> 'queue') IS NOT NULL THEN o ->> 'queue' ELSE 'default' END,
            128)],
        ARRAY[windlass.gate_json_1('payload', payload, 1048576)],
        ARRAY[v_priority],
        ARRAY[CASE WHEN (o -> 'key') IS NOT NULL THEN windlass.name_1('key', o ->> 'key', 512) END],
        ARRAY[CASE WHEN (o -> 'dedupe_key') IS NOT NULL THEN windlass.name_1('dedupe_key', o ->> 'dedupe_key',
            512) END],
        ARRAY[array_to_string(v_budgets, chr(31))],
        ARRAY[CASE WHEN (o -> 'retry') IS NOT NULL THEN windlass.retry_rule_1(o -> 'retry') END],
        ARRAY[v_timeout],
        ARRAY[windlass.with_trace_1(
            CASE WHEN (o -> 'meta') IS NOT NULL THEN windlass.gate_json_1('meta', (o -> 'meta')::text, 16384)::text END,
            o ->> 'traceparent')],
        ARRAY[v_run_at], ARRAY[v_delay]) e;
    PERFORM pg_notify('windlass_work', E'\n' || coalesce(o ->> 'queue', 'default'));
    RETURN coalesce(v_there, v_id);
END $$;

-- The same for whoever has made its JSON with functions of Postgres. What is in a jsonb is all that is known of it:
-- of a key that was said twice, it has kept the last.
CREATE FUNCTION windlass.enqueue(kind text, payload jsonb, options jsonb DEFAULT '{}') RETURNS uuid LANGUAGE sql AS $$
    SELECT windlass.enqueue(kind, windlass.minified_1(payload::text), options::text)
$$;
