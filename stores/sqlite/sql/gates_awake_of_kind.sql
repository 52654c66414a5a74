SELECT number, budgets, epoch FROM gates WHERE queue = ?1 AND kind = ?2 AND awake = 1
