-- What must hold of the rows of "steps" in these pages.
SELECT 'step of a job that is gone: ' || s.job_seq FROM windlass.steps s
 WHERE s.ctid >= $1::text::tid AND s.ctid < $2::text::tid
   AND NOT EXISTS (SELECT FROM windlass.jobs j WHERE j.seq = s.job_seq)
