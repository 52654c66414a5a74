SELECT numbered, newest, oldest, instance FROM windlass.follow_1($1, $2)
