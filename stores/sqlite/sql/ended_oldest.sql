SELECT ended_ms, position, jobs FROM ended WHERE queue = ?1 ORDER BY ended_ms, position
