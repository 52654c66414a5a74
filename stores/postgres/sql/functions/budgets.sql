-- The arithmetic of policy::budget: strict sliding windows counted in buckets.

CREATE FUNCTION windlass.spent_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_now bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT least(coalesce(sum((e ->> 1)::bigint), 0), 4294967295)::bigint
      FROM jsonb_array_elements(p_window) e
     WHERE (e ->> 0)::bigint >= p_now / p_bucket_ms - p_buckets
$$;

CREATE FUNCTION windlass.add_spent_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_amount bigint,
    p_now bigint)
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

CREATE FUNCTION windlass.window_free_1(p_window jsonb, p_bucket_ms bigint, p_buckets bigint, p_max bigint,
    p_from bigint)
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

-- The windows of a budget, with their bounds and shapes; mirrors Budget::windows.
CREATE FUNCTION windlass.windows_1(b windlass.budgets)
RETURNS TABLE (bound bigint, spent jsonb, bucket_ms bigint, buckets bigint) LANGUAGE sql IMMUTABLE AS $$
    VALUES (b.per_second, b.second_window, 20::bigint, 50::bigint),
           (b.per_minute, b.minute_window, 1000, 60),
           (b.per_day, b.day_window, 300000, 288)
$$;

-- How much of a budget may be spent now, slots aside; mirrors Budget::spendable.
CREATE FUNCTION windlass.spendable_1(b windlass.budgets, p_now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN b.cooling_ms > p_now THEN 0 ELSE (
        SELECT greatest(0, least(4294967295, min(w.bound - windlass.spent_1(w.spent, w.bucket_ms, w.buckets, p_now))))
          FROM windlass.windows_1(b) w WHERE w.bound IS NOT NULL) END
$$;

-- When one more may be spent; mirrors Budget::free_at.
CREATE FUNCTION windlass.budget_free_1(b windlass.budgets, p_now bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_moment bigint := greatest(p_now, coalesce(b.cooling_ms, p_now));
    w record;
BEGIN
    FOR w IN SELECT * FROM windlass.windows_1(b) x WHERE x.bound IS NOT NULL ORDER BY x.bucket_ms LOOP
        v_moment := greatest(v_moment, windlass.window_free_1(w.spent, w.bucket_ms, w.buckets, w.bound, v_moment));
    END LOOP;
    RETURN least(v_moment, windlass.time_max_1());
END $$;

-- The windows with so much more spent, where there is a bound and an amount; mirrors Budget::spend and Budget::fill.
CREATE FUNCTION windlass.spend_1(b windlass.budgets, p_second bigint, p_minute bigint, p_day bigint, p_now bigint)
RETURNS TABLE (writes bigint, second_window jsonb, minute_window jsonb, day_window jsonb)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_amounts bigint[] := ARRAY[p_second, p_minute, p_day];
    v_windows jsonb[] := ARRAY(
        SELECT CASE WHEN w.bound IS NULL OR v_amounts[w.at] IS NULL THEN w.spent
                    ELSE windlass.add_spent_1(w.spent, w.bucket_ms, w.buckets, v_amounts[w.at], p_now) END
          FROM windlass.windows_1(b) WITH ORDINALITY AS w(bound, spent, bucket_ms, buckets, at) ORDER BY w.at);
BEGIN
    RETURN QUERY SELECT b.writes + 1, v_windows[1], v_windows[2], v_windows[3];
END $$;

-- The begin of the newest bucket of a budget; nothing when nothing was spent.
CREATE FUNCTION windlass.spent_until_1(b windlass.budgets) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT max((w.spent -> -1 ->> 0)::bigint * w.bucket_ms) FROM windlass.windows_1(b) w
$$;
