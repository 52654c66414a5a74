DELETE FROM claims WHERE at_ms <= ?1
