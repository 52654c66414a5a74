-- A step that finished is progress: crashes before it do not count towards quarantine.
UPDATE jobs SET steps_count = steps_count + 1, crashes = 0 WHERE seq = ?1
