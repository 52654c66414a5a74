-- Another text when somebody has enqueued, or has told of work. "job_seq" moves before an enqueue commits, "news" after
-- it. A sequence that was never asked has the value that it will give first.
SELECT concat_ws(' ', n.last_value, n.is_called, j.last_value, j.is_called) FROM windlass.news n, windlass.job_seq j
