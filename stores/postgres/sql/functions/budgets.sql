-- The arithmetic of policy::budget: strict sliding windows counted in buckets.

CREATE FUNCTION windlass.spent_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_now bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT least(coalesce(sum((e ->> 1)::bigint), 0), 4294967295)::bigint
      FROM jsonb_array_elements(p_window) e
     WHERE (e ->> 0)::bigint >= p_now / p_bucket_ms - p_buckets
$$;

CREATE FUNCTION windlass.add_spent_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_amount bigint, p_now bigint)
RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_bucket bigint := greatest(p_now / p_bucket_ms, coalesce((p_window -> -1 ->> 0)::bigint, 0));
BEGIN
    RETURN (
        SELECT jsonb_agg(jsonb_build_array(b.bucket, least(b.amount, 4294967295)) ORDER BY b.bucket)
          FROM (SELECT x.bucket, sum(x.amount)::bigint AS amount
                  FROM (SELECT (e ->> 0)::bigint AS bucket, (e ->> 1)::bigint AS amount
                          FROM jsonb_array_elements(p_window) e
                        UNION ALL SELECT v_bucket, p_amount) x
                 WHERE x.bucket >= v_bucket - p_buckets
                 GROUP BY x.bucket) b);
END $$;

CREATE FUNCTION windlass.window_free_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_max bigint, p_from bigint)
RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_moment bigint := p_from;
    v_bucket bigint;
BEGIN
    IF p_max < 1 THEN
        RETURN windlass.time_max_1();
    END IF;
    WHILE windlass.spent_1(p_window, p_bucket_ms, p_buckets, v_moment) + 1 > p_max LOOP
        SELECT min((e ->> 0)::bigint) INTO v_bucket FROM jsonb_array_elements(p_window) e
         WHERE (e ->> 0)::bigint >= v_moment / p_bucket_ms - p_buckets;
        v_moment := (v_bucket + p_buckets + 1) * p_bucket_ms;
    END LOOP;
    RETURN v_moment;
END $$;

-- How much of a budget may be spent now, slots aside.
CREATE FUNCTION windlass.spendable_1(b windlass.budgets, p_now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN b.cooling_ms > p_now THEN 0 ELSE greatest(0, least(
        4294967295,
        b.per_second - windlass.spent_1(b.second_window, 20, 50, p_now),
        b.per_day - windlass.spent_1(b.day_window, 300000, 288, p_now))) END
$$;

-- When one more may be spent.
CREATE FUNCTION windlass.budget_free_1(b windlass.budgets, p_now bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_moment bigint := greatest(p_now, coalesce(b.cooling_ms, p_now));
BEGIN
    IF b.per_second IS NOT NULL THEN
        v_moment := greatest(v_moment, windlass.window_free_1(b.second_window, 20, 50, b.per_second, v_moment));
    END IF;
    IF b.per_day IS NOT NULL THEN
        v_moment := greatest(v_moment, windlass.window_free_1(b.day_window, 300000, 288, b.per_day, v_moment));
    END IF;
    RETURN least(v_moment, windlass.time_max_1());
END $$;
