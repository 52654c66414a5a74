-- Lets a budget cool down, at least as long as it did before.
INSERT INTO {cool_downs} AS c (name, until)
SELECT $2::text, m.now + $3::bigint * interval '1 millisecond' FROM (SELECT {now} AS now) m
ON CONFLICT (name) DO UPDATE SET until = greatest(c.until, excluded.until)
