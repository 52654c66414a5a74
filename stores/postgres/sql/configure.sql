SELECT windlass.configure_1($1, $2, $3)
