-- After moments of many jobs were changed at once.
INSERT INTO due (queue, run_at_ms, jobs)
SELECT queue, run_at_ms, count(*) FROM jobs WHERE state = 0 GROUP BY queue, run_at_ms
