PRAGMA query_only = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -8192;
PRAGMA cell_size_check = ON;
