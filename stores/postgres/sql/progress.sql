SELECT id, fence FROM windlass.progress_1($1, $2, $3, $4)
