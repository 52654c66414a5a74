UPDATE gates SET awake = 0 WHERE number IN (SELECT value FROM rarray(?1))
