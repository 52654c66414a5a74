SELECT b.name, b.slots, b.per_second, b.per_minute, b.per_day, b.cooling_ms, b.second_window::text,
       b.minute_window::text, b.day_window::text, 0::bigint
  FROM windlass.budgets b WHERE b.name = $1 FOR UPDATE
