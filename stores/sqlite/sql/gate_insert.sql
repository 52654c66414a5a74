INSERT INTO gates (queue, kind, budgets, epoch, awake) VALUES (?1, ?2, ?3, ?4, 0)
