SELECT leases, asked FROM claims_made WHERE request_id = ?1
