DELETE FROM holders WHERE slot IN (SELECT value FROM rarray(?1))
