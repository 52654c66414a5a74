SELECT number, budgets, epoch FROM gates WHERE queue = ?1 AND awake = 1
