DELETE FROM workers WHERE seen_ms <= ?1
