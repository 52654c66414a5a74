INSERT INTO jobs (
  seq, id, gate_number, rank, run_at_ms, created_ms, priority, timeout_ms, slot,
  kind, queue, key, dedupe_key, budgets, retry, meta, payload
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
ON CONFLICT DO NOTHING
