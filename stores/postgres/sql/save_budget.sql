UPDATE windlass.budgets
   SET second_window = $2::text::jsonb, minute_window = $3::text::jsonb, day_window = $4::text::jsonb,
       writes = writes + 1
 WHERE name = $1
