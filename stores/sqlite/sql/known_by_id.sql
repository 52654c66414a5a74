SELECT seq, queue, slot, budgets, dedupe_key, gate_number, rank FROM jobs WHERE id = ?1
