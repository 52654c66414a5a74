SELECT gate, warned, seq FROM keys_taken WHERE slot = ?1
