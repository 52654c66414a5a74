leases.fence, leases.attempt, leases.started_ms, leases.lease_ms, leases.expires_ms, leases.cancel_requested,
leases.worker, leases.marked_ms, past.state, past.fence, past.attempt, past.started_ms, past.ended_ms, past.reason, past.worker,
past.result
