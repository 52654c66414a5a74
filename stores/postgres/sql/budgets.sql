SELECT b.name, b.slots, b.per_second, b.per_minute, b.per_day, b.cooling_ms, b.second_window::text,
       b.minute_window::text, b.day_window::text, windlass.running_1(1, b.name)
  FROM windlass.budgets b
 WHERE $1::text[] IS NULL OR b.name = ANY ($1)
 ORDER BY b.name
