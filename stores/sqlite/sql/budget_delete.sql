DELETE FROM budgets WHERE name = ?1
