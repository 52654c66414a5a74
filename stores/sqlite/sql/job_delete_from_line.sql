DELETE FROM line WHERE (slot, gate, rank, seq) = (SELECT slot, gate_number, rank, seq FROM jobs WHERE seq = ?1)
