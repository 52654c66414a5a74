DELETE FROM keys_taken WHERE slot IN (SELECT value FROM rarray(?1))
