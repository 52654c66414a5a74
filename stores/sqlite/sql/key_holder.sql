SELECT id FROM holders CROSS JOIN jobs ON jobs.seq = holders.seq WHERE holders.slot = ?1
