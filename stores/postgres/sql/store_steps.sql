SELECT written FROM windlass.store_steps_1($1, $2, $3, $4, $5, $6)
