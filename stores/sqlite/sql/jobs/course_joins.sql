LEFT JOIN leases ON leases.seq = jobs.seq LEFT JOIN past ON past.seq = jobs.seq
