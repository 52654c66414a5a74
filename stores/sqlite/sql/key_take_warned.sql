INSERT INTO keys_taken (slot, seq, gate, rank, warned) VALUES (?1, ?2, ?3, ?4, 1)
