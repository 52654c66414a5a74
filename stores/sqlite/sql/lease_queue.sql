SELECT queue FROM jobs WHERE seq = ?1
