SELECT windlass.to_look_at_1(windlass.begin_1($1), $2)
