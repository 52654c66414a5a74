SELECT gate FROM line WHERE slot = ?1 AND gate >= ?2 ORDER BY gate LIMIT 1
