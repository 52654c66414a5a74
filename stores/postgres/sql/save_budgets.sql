UPDATE windlass.budgets b
   SET second_window = u.second::jsonb, minute_window = u.minute::jsonb, day_window = u.day::jsonb,
       writes = b.writes + 1
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS u(name, second, minute, day)
 WHERE b.name = u.name
