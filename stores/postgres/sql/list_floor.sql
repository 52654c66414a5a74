SELECT seq FROM windlass.jobs WHERE seq < $1 ORDER BY seq DESC OFFSET $2 LIMIT 1
