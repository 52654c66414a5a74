-- Lets a budget cool down, at least as long as it did before; no time at all ends that.
INSERT INTO {cool_downs} AS c (name, until)
SELECT $2::text, m.now + $3::bigint * interval '1 millisecond' FROM (SELECT {now} AS now) m
ON CONFLICT (name) DO UPDATE
   SET until = CASE WHEN $3::bigint = 0 THEN excluded.until ELSE greatest(c.until, excluded.until) END
