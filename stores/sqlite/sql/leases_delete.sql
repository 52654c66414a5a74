DELETE FROM leases WHERE seq IN (SELECT value FROM rarray(?1))
