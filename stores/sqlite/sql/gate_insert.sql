INSERT INTO gates (queue, kind, budgets, awake) VALUES (?1, ?2, ?3, 0)
