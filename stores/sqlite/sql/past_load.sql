SELECT fence, attempt, started_ms, worker FROM past WHERE seq = ?1
