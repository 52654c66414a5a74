SELECT seq, fence FROM leases WHERE seq BETWEEN ?1 AND ?2
