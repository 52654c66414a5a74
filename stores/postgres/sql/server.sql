SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
       current_setting('transaction_isolation'), pg_is_in_recovery()
