DELETE FROM leases WHERE seq = ?1
