INSERT INTO holders (slot, seq, gate, rank, warned) VALUES (?1, ?2, ?3, ?4, ?5)
