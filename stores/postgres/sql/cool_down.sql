INSERT INTO windlass.budgets AS b (name, cooling_ms)
SELECT $2, windlass.moment_1(windlass.begin_1($1) + $3)
ON CONFLICT (name) DO UPDATE
   SET cooling_ms = CASE WHEN $3 = 0 THEN excluded.cooling_ms ELSE greatest(b.cooling_ms, excluded.cooling_ms) END
