DELETE FROM longest WHERE at_ms < ?1
