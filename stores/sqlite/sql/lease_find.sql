-- In the order in which they are asked for. CROSS JOIN: SQLite must not turn the loops around.
SELECT seq, id, fence, queue, key, budgets, steps_count
FROM rarray(?1) AS asked CROSS JOIN jobs ON id = asked.value
WHERE state = 1 AND expires_ms > ?2
