-- What must hold of the rows of "keys" in these pages.
SELECT 'key is held by a job that does not run: ' || k.holder FROM windlass.keys k
 WHERE k.ctid >= $1::text::tid AND k.ctid < $2::text::tid AND k.holder IS NOT NULL
   AND NOT EXISTS (SELECT FROM windlass.jobs_1 j WHERE j.seq = k.holder AND j.state = 1)
