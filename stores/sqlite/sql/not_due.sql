-- Only after the clock was set back, so this one may look at all queued jobs. (?2 is not needed here.)
SELECT seq, rank, queue, key, gate, lane FROM jobs WHERE lane IN (1, 3) AND run_at_ms > ?1 AND ?2 > 0
