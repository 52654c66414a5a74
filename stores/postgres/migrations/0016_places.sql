-- The history of a store names its database and its table, too: a dump that is restored, or a database that is cloned,
-- on the same server begins a new epoch. Programs of the fifteenth schema that are running go on; what their sessions
-- remember of the server goes by another name.
DROP FUNCTION IF EXISTS windlass.history_1();
DROP FUNCTION IF EXISTS windlass.server_1();
UPDATE windlass.epoch e
   SET history = regexp_replace(e.history, '^([0-9]+)(:[0-9]+)*', '\1:'
       || (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) || ':' || e.tableoid::bigint);
