UPDATE OR FAIL jobs SET lane = 3 WHERE seq IN (
  SELECT seq FROM rarray(?2) AS taken CROSS JOIN jobs INDEXED BY jobs_key_ready
  WHERE queue = ?1 AND key = taken.value AND lane = 1
)
