-- Jobs in every state, as a program of the second schema left them. ?now? stands for its time.
-- 1: ready. 2: delayed. 3: runs with a key and a step. 4: waits behind it. 5: completed with a result.
-- 6: failed. 7: canceled before it ran. 8: released after an attempt. 9: shown for a free key.
-- 10: waits behind 9. 11: names a budget and holds a dedupe key. 12: ended with the same dedupe key.
-- 13: runs and is asked to cancel. 14: delayed with a key, after an attempt.
INSERT INTO jobs (
  seq, id, state, lane, gate, rank, run_at_ms, fence, attempt, lease_ms, expires_ms, cancel_requested, ended_ms,
  reason, steps_count, created_ms, started_ms, priority, kind, queue, key, dedupe_key, worker, budgets, payload,
  result, history
) VALUES
  (1, x'00000000000000000000000000000001', 0, 1, 1, 1, ?now?, 0, 0, NULL, NULL, 0, NULL, NULL, 0, ?now?, NULL, 0, 'k', 'default', NULL, NULL, NULL, NULL, '"1"', NULL, NULL),
  (2, x'00000000000000000000000000000002', 0, 2, 1, 2, ?now? + 60000, 0, 0, NULL, NULL, 0, NULL, NULL, 0, ?now?, NULL, 0, 'k', 'default', NULL, NULL, NULL, NULL, '"2"', NULL, NULL),
  (3, x'00000000000000000000000000000003', 1, NULL, 1, 3, ?now?, 4, 2, 30000, ?now? + 30000, 0, NULL, NULL, 1, ?now?, ?now?, 0, 'k', 'default', 'shop', NULL, 'w', NULL, '"3"', NULL, NULL),
  (4, x'00000000000000000000000000000004', 0, 3, 1, 4, ?now?, 0, 0, NULL, NULL, 0, NULL, NULL, 0, ?now?, NULL, 0, 'k', 'default', 'shop', NULL, NULL, NULL, '"4"', NULL, NULL),
  (5, x'00000000000000000000000000000005', 2, NULL, 1, 5, ?now?, 1, 1, NULL, NULL, 0, ?now?, NULL, 0, ?now?, ?now?, 0, 'k', 'default', NULL, NULL, 'w', NULL, '"5"', '{"gave":5}', NULL),
  (6, x'00000000000000000000000000000006', 3, NULL, 1, 6, ?now?, 1, 1, NULL, NULL, 0, ?now?, 1, 0, ?now?, ?now?, 0, 'k', 'default', 'shop', NULL, 'w', NULL, '"6"', NULL, '[{"at":"2026-01-01T00:00:00Z","what":"failed","attempt":1,"fence":1}]'),
  (7, x'00000000000000000000000000000007', 4, NULL, 1, 7, ?now?, 0, 0, NULL, NULL, 0, ?now?, NULL, 0, ?now?, NULL, 0, 'k', 'default', NULL, NULL, NULL, NULL, '"7"', NULL, NULL),
  (8, x'00000000000000000000000000000008', 0, 1, 1, 8, ?now?, 2, 1, NULL, NULL, 0, NULL, NULL, 0, ?now?, ?now?, 0, 'k', 'default', NULL, NULL, 'w', NULL, '"8"', NULL, NULL),
  (9, x'00000000000000000000000000000009', 0, 1, 1, 9, ?now?, 0, 0, NULL, NULL, 0, NULL, NULL, 0, ?now?, NULL, 0, 'k', 'default', 'free', NULL, NULL, NULL, '"9"', NULL, NULL),
  (10, x'0000000000000000000000000000000a', 0, 3, 1, 10, ?now?, 0, 0, NULL, NULL, 0, NULL, NULL, 0, ?now?, NULL, 0, 'k', 'default', 'free', NULL, NULL, NULL, '"10"', NULL, NULL),
  (11, x'0000000000000000000000000000000b', 0, 1, 2, 11, ?now?, 0, 0, NULL, NULL, 0, NULL, NULL, 0, ?now?, NULL, 0, 'k', 'default', NULL, 'once', NULL, '["b"]', '"11"', NULL, NULL),
  (12, x'0000000000000000000000000000000c', 2, NULL, 2, 12, ?now?, 1, 1, NULL, NULL, 0, ?now?, NULL, 0, ?now?, ?now?, 0, 'k', 'default', NULL, 'once', 'w', '["b"]', '"12"', NULL, NULL),
  (13, x'0000000000000000000000000000000d', 1, NULL, 2, 13, ?now?, 1, 1, 30000, ?now? + 30000, 1, NULL, NULL, 0, ?now?, ?now?, 0, 'k', 'default', NULL, NULL, 'w', '["b"]', '"13"', NULL, NULL),
  (14, x'0000000000000000000000000000000e', 0, 2, 1, 14, ?now? + 60000, 1, 1, NULL, NULL, 0, NULL, NULL, 0, ?now?, ?now?, 0, 'k', 'default', 'shop', NULL, 'w', NULL, '"14"', NULL, NULL);
INSERT INTO steps VALUES (3, 0, 'fetch', '"fetched"', 1, ?now?);
INSERT INTO tallies VALUES (0, 'default', 8, 2, 4), (1, 'b', 0, 1, 0);
INSERT INTO due SELECT queue, run_at_ms, count(*) FROM jobs WHERE state = 0 GROUP BY queue, run_at_ms;
UPDATE head SET next_seq = 15;
PRAGMA user_version = 2;
