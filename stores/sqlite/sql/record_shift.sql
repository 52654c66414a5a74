-- Only after the clock was set back: what had expired stays so.
UPDATE records SET expires_ms = ?1 WHERE expires_ms > ?1 AND expires_ms <= ?2
