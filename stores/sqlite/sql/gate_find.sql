SELECT number FROM gates WHERE queue = ?1 AND kind = ?2 AND budgets = ?3 AND epoch = ?4
