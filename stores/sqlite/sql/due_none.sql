-- The last of their moment go. More than are counted go, too: a number that people look at never holds up a job.
DELETE FROM due WHERE queue = ?1 AND run_at_ms = ?2 AND jobs <= ?3
