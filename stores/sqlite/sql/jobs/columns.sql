jobs.seq, jobs.id, jobs.gate_number, jobs.rank, jobs.run_at_ms, jobs.created_ms, jobs.priority, jobs.timeout_ms,
jobs.steps_count, jobs.crashes, jobs.retries, jobs.slot, jobs.kind, jobs.queue, jobs.key, jobs.dedupe_key,
jobs.budgets, jobs.retry, jobs.meta, jobs.progress, jobs.history, jobs.payload
