SELECT done, ids, queues, freed FROM windlass.complete_3($1, $2, $3, $4, $5, $6)
