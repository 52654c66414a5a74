SELECT body FROM budgets ORDER BY name
