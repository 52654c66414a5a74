SELECT seq, queue, slot, budgets, dedupe_key, gate, rank FROM jobs WHERE id = ?1
