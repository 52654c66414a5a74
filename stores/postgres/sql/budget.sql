-- name: all
SELECT b.name, b.slots, b.per_second, b.per_minute, b.per_day, b.cooling_ms, b.second_window::text,
       b.minute_window::text, b.day_window::text, windlass.running_1(1, b.name)
  FROM windlass.budgets b
 WHERE $1::text[] IS NULL OR b.name = ANY ($1)
 ORDER BY b.name

-- name: cool_down
INSERT INTO windlass.budgets AS b (name, cooling_ms)
SELECT $2, windlass.moment_1(windlass.begin_1($1) + $3)
ON CONFLICT (name) DO UPDATE
   SET cooling_ms = CASE WHEN $3 = 0 THEN excluded.cooling_ms ELSE greatest(b.cooling_ms, excluded.cooling_ms) END

-- name: delete
DELETE FROM windlass.budgets b WHERE b.name = $1 RETURNING b.name

-- name: lock
SELECT b.name, b.slots, b.per_second, b.per_minute, b.per_day, b.cooling_ms, b.second_window::text,
       b.minute_window::text, b.day_window::text, 0::bigint
  FROM windlass.budgets b WHERE b.name = $1 FOR UPDATE

-- name: put
INSERT INTO windlass.budgets (name, slots, per_second, per_minute, per_day) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE
   SET slots = excluded.slots, per_second = excluded.per_second, per_minute = excluded.per_minute,
       per_day = excluded.per_day

-- name: save
UPDATE windlass.budgets b
   SET second_window = u.second::jsonb, minute_window = u.minute::jsonb, day_window = u.day::jsonb,
       writes = b.writes + 1
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS u(name, second, minute, day)
 WHERE b.name = u.name
