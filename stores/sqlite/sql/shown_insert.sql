INSERT INTO shown (gate, rank, seq, again, heir) VALUES (?1, ?2, ?3, ?4, ?5)
