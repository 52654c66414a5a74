SELECT gate, rank, seq FROM holders WHERE slot = ?1
