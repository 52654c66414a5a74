SELECT windlass.next_look_1(t.now_ms), t.now_ms FROM (SELECT windlass.begin_1($1) AS now_ms) t
