SELECT windlass.run_out_1(windlass.begin_1($1), $2)
