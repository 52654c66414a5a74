UPDATE OR FAIL jobs SET lane = 1 WHERE seq IN (SELECT value FROM rarray(?1))
