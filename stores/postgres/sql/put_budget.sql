INSERT INTO windlass.budgets (name, slots, per_second, per_minute, per_day) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE
   SET slots = excluded.slots, per_second = excluded.per_second, per_minute = excluded.per_minute,
       per_day = excluded.per_day
