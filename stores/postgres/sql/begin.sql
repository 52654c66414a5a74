SELECT windlass.begin_1($1)
