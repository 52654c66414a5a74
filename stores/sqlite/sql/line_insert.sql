-- Its row may still be there from before it ran.
INSERT INTO line (slot, gate, rank, seq, again) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET again = ?5
