SELECT leases FROM claims WHERE request_id = ?1
