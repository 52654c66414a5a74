SELECT id FROM jobs WHERE seq = ?1
