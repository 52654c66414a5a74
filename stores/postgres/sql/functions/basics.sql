-- The time of a call, which is also where a call makes sure that what it
-- commits is durable, whatever the session, the role or a pooler says.
CREATE FUNCTION windlass.begin_1(p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN coalesce(p_now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
END $$;

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
