SELECT b.name, b.slots, b.per_second, b.per_day, b.cooling_ms, b.second_window::text, b.day_window::text,
       (SELECT count(*) FROM windlass.jobs j
         WHERE j.lease_ms IS NOT NULL AND j.budgets IS NOT NULL AND b.name = ANY (j.budgets))
  FROM windlass.budgets b
 WHERE $1::text[] IS NULL OR b.name = ANY ($1)
 ORDER BY b.name
