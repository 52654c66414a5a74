INSERT INTO ready (gate, rank, seq, again) VALUES (?1, ?2, ?3, ?4)
