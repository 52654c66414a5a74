-- To programs of the twelfth schema, which know nothing of actions, it is a "made_due" of no jobs.
INSERT INTO windlass.events (at_ms, what, queue, jobs, action) VALUES (windlass.begin_1($1), 11, $2, '{}', $3)
