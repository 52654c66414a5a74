-- The first number from $1 on that a job, a run or a step has, and the last that any has.
SELECT least((SELECT min(j.seq) FROM windlass.jobs j WHERE j.seq >= $1),
             (SELECT min(r.seq) FROM windlass.runs r WHERE r.seq >= $1),
             (SELECT min(s.job_seq) FROM windlass.steps s WHERE s.job_seq >= $1)),
       greatest((SELECT max(j.seq) FROM windlass.jobs j), (SELECT max(r.seq) FROM windlass.runs r),
                (SELECT max(s.job_seq) FROM windlass.steps s))
