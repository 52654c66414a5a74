SELECT leases, asked FROM claims WHERE request_id = ?1
