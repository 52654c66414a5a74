DELETE FROM ended WHERE queue = ?1 AND ended_ms = ?2 AND position = ?3
