DELETE FROM windlass.budgets b WHERE b.name = $1 RETURNING b.name
