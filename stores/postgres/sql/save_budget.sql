UPDATE windlass.budgets SET second_window = $2::text::jsonb, day_window = $3::text::jsonb WHERE name = $1
