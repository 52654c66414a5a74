-- name: check
PRAGMA integrity_check

-- name: data_version
PRAGMA data_version

-- name: pragmas_reader
PRAGMA query_only = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -8192;
PRAGMA cell_size_check = ON;

-- name: pragmas_writer
-- FULL: a commit is on the disk when it answers. Checkpoints are the writer's own, after its answers.
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
PRAGMA wal_autocheckpoint = 0;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -65536;
PRAGMA cell_size_check = ON;
PRAGMA secure_delete = FAST;
