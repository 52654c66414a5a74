-- What must hold of the rows of "delayed" in these pages.
SELECT 'place of a job that is not queued: ' || d.seq || ' is delayed' FROM windlass.delayed d
 WHERE d.ctid >= $1::text::tid AND d.ctid < $2::text::tid
   AND NOT EXISTS (
       SELECT FROM windlass.jobs_1 j
        WHERE j.seq = d.seq AND j.state = 0 AND j.run_at_ms = d.run_at_ms AND j.queue = d.queue)
