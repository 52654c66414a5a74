DELETE FROM gates WHERE queue NOT IN (SELECT name FROM tallies WHERE sort = 0)
