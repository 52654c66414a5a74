-- Only after the clock was set back, so this one looks at all queued jobs, and ?2 (a limit elsewhere) at none.
SELECT seq, rank, queue, key, gate, lane FROM jobs WHERE lane IN (1, 3) AND run_at_ms > ?1 AND ?2 > 0
