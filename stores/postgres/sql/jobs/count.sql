SELECT coalesce(r.state, p.running, 0::smallint), count(*)
