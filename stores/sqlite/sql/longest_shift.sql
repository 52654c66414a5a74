UPDATE longest SET at_ms = min(max(at_ms + ?1, ?2), ?3)
