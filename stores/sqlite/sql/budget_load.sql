SELECT body FROM budgets WHERE name = ?1
