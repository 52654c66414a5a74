SELECT done, ids, queues, freed FROM windlass.complete_2($1, $2, $3, $4, $5, $6, $7, $8)
