SELECT number, kind, budgets FROM gates WHERE queue = ?1 AND awake = 1
