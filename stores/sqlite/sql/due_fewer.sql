UPDATE due SET jobs = jobs - ?3 WHERE queue = ?1 AND run_at_ms = ?2
