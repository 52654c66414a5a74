UPDATE shown SET heir = 0 WHERE gate = ?1 AND rank = ?2 AND seq = ?3 AND heir = 1
