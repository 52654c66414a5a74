SELECT windlass.prune_records_1($1, $2, $3)
