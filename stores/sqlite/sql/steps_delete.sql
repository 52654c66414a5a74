DELETE FROM steps WHERE seq = ?1
