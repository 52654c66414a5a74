-- One row per gate; its queue is that of any of its jobs. The inner query never leaves the index.
SELECT jobs.queue, oldest.run_at_ms FROM (
  SELECT max(seq) AS seq, min(run_at_ms) AS run_at_ms FROM jobs INDEXED BY jobs_ready
  WHERE lane = 1 AND run_at_ms <= ?1 GROUP BY gate
) AS oldest JOIN jobs ON jobs.seq = oldest.seq
