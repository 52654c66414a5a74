seq, id, state, lane, gate, rank, run_at_ms, fence, attempt, lease_ms, expires_ms, cancel_requested,
ended_ms, reason, crashes, retries, steps_count, created_ms, started_ms, priority, timeout_ms,
kind, queue, key, dedupe_key, worker, budgets, retry, payload, meta, progress, result, history
