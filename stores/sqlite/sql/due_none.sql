-- The last of their moment go.
DELETE FROM due WHERE queue = ?1 AND run_at_ms = ?2 AND jobs = ?3
