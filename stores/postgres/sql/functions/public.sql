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
        PERFORM windlass.refuse_1(format('%s has %s bytes; at most %s are allowed', p_field, octet_length(p_name), p_bytes_max));
    ELSIF p_name ~ E'[\u0001-\u001F\u007F-\u009F]' THEN
        PERFORM windlass.refuse_1(p_field || ' contains a control character');
    END IF;
    RETURN p_name;
END $$;

-- The milliseconds of a length of time such as 700ms, 30s, 5m, 2h or 1d.
CREATE FUNCTION windlass.span_1(p_field text, p_text text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_parts text[] := regexp_match(p_text, '^([0-9]{1,15})(ms|s|m|h|d)$');
    v_ms numeric;
BEGIN
    IF v_parts IS NULL THEN
        PERFORM windlass.refuse_1(format('%s %L is not a length of time such as 700ms, 30s, 5m, 2h or 1d', p_field, p_text));
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

-- JSON that has passed the gate, as minified text. jsonb has already refused
-- NUL and duplicate keys.
CREATE FUNCTION windlass.gate_json_1(p_field text, p_json jsonb, p_bytes_max integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_text text := regexp_replace(p_json::text, '("(?:[^"\\]|\\.)*")|([,:]) ', '\1\2', 'g');
    v_depth integer;
    v_bad boolean;
BEGIN
    IF octet_length(v_text) > p_bytes_max THEN
        PERFORM windlass.refuse_1(format('%s has %s bytes; at most %s are allowed', p_field, octet_length(v_text), p_bytes_max));
    END IF;
    WITH RECURSIVE parts(value, depth) AS (
        SELECT p_json, CASE WHEN jsonb_typeof(p_json) IN ('object', 'array') THEN 1 ELSE 0 END
        UNION ALL
        SELECT inner_part.value, parts.depth + CASE WHEN jsonb_typeof(inner_part.value) IN ('object', 'array') THEN 1 ELSE 0 END
          FROM parts CROSS JOIN LATERAL (
               SELECT e.value FROM jsonb_each(CASE WHEN jsonb_typeof(parts.value) = 'object' THEN parts.value ELSE '{}' END) e
               UNION ALL
               SELECT a.value FROM jsonb_array_elements(CASE WHEN jsonb_typeof(parts.value) = 'array' THEN parts.value ELSE '[]' END) a
          ) inner_part
         WHERE parts.depth <= 64
    )
    SELECT max(p.depth),
           bool_or(CASE WHEN jsonb_typeof(p.value) <> 'number' THEN false
                        WHEN p.value::text ~ '^-?[0-9]+$'
                        THEN p.value::text::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807
                        ELSE abs(p.value::text::numeric) > 1.7e308 END)
      INTO v_depth, v_bad FROM parts p;
    IF v_depth > 64 THEN
        PERFORM windlass.refuse_1(p_field || ' is nested deeper than 64');
    ELSIF v_bad THEN
        PERFORM windlass.refuse_1(p_field || ' has an integer that does not fit into 64 bits');
    END IF;
    RETURN v_text;
END $$;

-- A retry rule as the program writes it; given as a ladder such as '1m 5m 1h',
-- or as an object with ladder and max_attempts.
CREATE FUNCTION windlass.retry_rule_1(p_rule jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_ladder text := CASE jsonb_typeof(p_rule) WHEN 'string' THEN p_rule #>> '{}' ELSE p_rule ->> 'ladder' END;
    v_max jsonb := CASE WHEN jsonb_typeof(p_rule) = 'object' THEN p_rule -> 'max_attempts' END;
    v_unknown text;
    v_rungs text[];
BEGIN
    IF jsonb_typeof(p_rule) = 'object' THEN
        SELECT k INTO v_unknown FROM jsonb_object_keys(p_rule) k WHERE k NOT IN ('ladder', 'max_attempts') LIMIT 1;
    END IF;
    IF v_ladder IS NULL OR v_unknown IS NOT NULL THEN
        PERFORM windlass.refuse_1('retry is neither a ladder such as "1m 5m" nor an object with ladder and max_attempts');
    END IF;
    IF v_max IS NOT NULL AND (jsonb_typeof(v_max) <> 'number' OR v_max::text !~ '^[1-9][0-9]{0,8}$') THEN
        PERFORM windlass.refuse_1('retry has a max_attempts that is not a whole number above 0');
    END IF;
    IF btrim(v_ladder) = 'none' THEN
        v_ladder := '';
    END IF;
    SELECT array_agg(windlass.span_text_1(windlass.span_1('retry', r.rung)) ORDER BY r.ord) INTO v_rungs
      FROM regexp_split_to_table(v_ladder, '[ ,]') WITH ORDINALITY AS r(rung, ord) WHERE r.rung <> '';
    IF cardinality(v_rungs) > 100 THEN
        PERFORM windlass.refuse_1('retry has more than 100 rungs');
    END IF;
    RETURN '{"ladder":"' || coalesce(array_to_string(v_rungs, ' '), 'none') || '"'
        || coalesce(',"max_attempts":' || v_max::text, '') || '}';
END $$;

-- Enqueues a job in the caller's own transaction: it is there when that
-- commits, and never was when it does not. Answers with the id of the job that
-- is there now.
CREATE FUNCTION windlass.enqueue(kind text, payload jsonb, options jsonb DEFAULT '{}')
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    o jsonb := coalesce(options, '{}');
    v_unknown text;
    v_budgets text[];
    v_run_at bigint;
    v_delay bigint;
    v_timeout bigint;
    v_priority smallint := 0;
    v_id uuid;
    v_there uuid;
BEGIN
    IF jsonb_typeof(o) <> 'object' THEN
        PERFORM windlass.refuse_1('options are not an object');
    END IF;
    SELECT string_agg(k, ', ' ORDER BY k) INTO v_unknown FROM jsonb_object_keys(o) k
     WHERE k NOT IN ('id', 'queue', 'priority', 'run_at', 'delay', 'key', 'dedupe_key', 'budgets', 'retry',
                     'timeout', 'meta');
    IF v_unknown IS NOT NULL THEN
        PERFORM windlass.refuse_1('unknown option ' || v_unknown || '; known are id, queue, priority, run_at, delay, '
            || 'key, dedupe_key, budgets, retry, timeout, meta');
    END IF;
    IF payload IS NULL THEN
        PERFORM windlass.refuse_1('payload is NULL; give ''null''::jsonb for an empty one');
    END IF;
    IF o ? 'id' THEN
        IF o ->> 'id' !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN
            PERFORM windlass.refuse_1('id is not a UUID');
        END IF;
        v_id := (o ->> 'id')::uuid;
    ELSE
        v_id := gen_random_uuid();
    END IF;
    IF o ? 'priority' THEN
        IF jsonb_typeof(o -> 'priority') <> 'number' OR (o ->> 'priority') !~ '^-?[0-9]{1,5}$'
           OR (o ->> 'priority')::integer NOT BETWEEN -32768 AND 32767 THEN
            PERFORM windlass.refuse_1('priority is not a whole number between -32768 and 32767');
        END IF;
        v_priority := (o ->> 'priority')::smallint;
    END IF;
    IF o ? 'run_at' AND o ? 'delay' THEN
        PERFORM windlass.refuse_1('run_at and delay exclude each other');
    END IF;
    IF o ? 'run_at' THEN
        IF (o ->> 'run_at') !~ '^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$' THEN
            PERFORM windlass.refuse_1('run_at is not a moment such as 2026-01-31T12:00:00Z');
        END IF;
        v_run_at := floor(extract(epoch FROM (o ->> 'run_at')::timestamptz) * 1000)::bigint;
        IF v_run_at NOT BETWEEN 0 AND windlass.time_max_1() THEN
            PERFORM windlass.refuse_1('run_at lies outside the years 1970 to 9999');
        END IF;
    END IF;
    IF o ? 'delay' THEN
        v_delay := windlass.span_1('delay', o ->> 'delay');
    END IF;
    IF o ? 'timeout' THEN
        v_timeout := windlass.span_1('timeout', o ->> 'timeout');
        IF v_timeout = 0 THEN
            PERFORM windlass.refuse_1('timeout is 0; leave it out for no limit');
        END IF;
    END IF;
    IF o ? 'budgets' THEN
        IF jsonb_typeof(o -> 'budgets') <> 'array' THEN
            PERFORM windlass.refuse_1('budgets are not an array of names');
        END IF;
        SELECT array_agg(DISTINCT windlass.name_1('budget', b.name, 128) COLLATE "C") INTO v_budgets
          FROM jsonb_array_elements_text(o -> 'budgets') AS b(name);
        IF cardinality(v_budgets) > 8 THEN
            PERFORM windlass.refuse_1('budgets are more than 8');
        END IF;
    END IF;
    SELECT e.there INTO v_there FROM windlass.enqueue_1(
        NULL, true, ARRAY[v_id], ARRAY[windlass.name_1('kind', kind, 128)],
        ARRAY[windlass.name_1('queue', CASE WHEN o ? 'queue' THEN o ->> 'queue' ELSE 'default' END, 128)],
        ARRAY[windlass.gate_json_1('payload', payload, 1048576)],
        ARRAY[v_priority],
        ARRAY[CASE WHEN o ? 'key' THEN windlass.name_1('key', o ->> 'key', 512) END],
        ARRAY[CASE WHEN o ? 'dedupe_key' THEN windlass.name_1('dedupe_key', o ->> 'dedupe_key', 512) END],
        ARRAY[array_to_string(v_budgets, chr(31))],
        ARRAY[CASE WHEN o ? 'retry' THEN windlass.retry_rule_1(o -> 'retry') END],
        ARRAY[v_timeout],
        ARRAY[CASE WHEN o ? 'meta' THEN windlass.gate_json_1('meta', o -> 'meta', 16384) END],
        ARRAY[v_run_at], ARRAY[v_delay]) e;
    PERFORM pg_notify('windlass_work', '');
    RETURN coalesce(v_there, v_id);
END $$;
