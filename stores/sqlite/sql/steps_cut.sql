DELETE FROM steps WHERE seq = ?1 AND ordinal >= ?2
