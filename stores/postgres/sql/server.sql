-- name: instance
SELECT gen_random_uuid()::text

-- name: risks
-- What the server says of its set-up. Columns that a role may not see are nothing, and then nothing is said of them.
SELECT current_setting('fsync') = 'off',
       current_setting('full_page_writes') = 'off',
       (SELECT count(*) FROM pg_stat_replication),
       current_setting('synchronous_standby_names') <> '',
       (SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn))::bigint FROM pg_stat_replication r),
       -- One that has stopped to answer tells of no lag: then it is as old as its last word.
       (SELECT (extract(epoch FROM max(greatest(r.replay_lag, CASE WHEN r.replay_lsn < pg_current_wal_lsn()
                    THEN clock_timestamp() - r.reply_time END))) * 1000)::bigint FROM pg_stat_replication r),
       (SELECT (extract(epoch FROM clock_timestamp() - min(a.xact_start)) * 1000)::bigint FROM pg_stat_activity a
         WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'),
       (SELECT (extract(epoch FROM clock_timestamp() - min(p.prepared)) * 1000)::bigint FROM pg_prepared_xacts p),
       (SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn))::bigint FROM pg_replication_slots s
           WHERE NOT s.active),
       current_setting('max_connections')::bigint,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.backend_type = 'client backend'),
       -- Where its files are, when they are on the machine that asks.
       (SELECT s.setting FROM pg_settings s
         WHERE s.name = 'data_directory'
           AND (inet_server_addr() IS NULL OR inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1')),
       -- Whether it was said that a promotion loses nothing, and whether commits wait for anybody now.
       (SELECT e.synchronous FROM windlass.epoch e),
       (SELECT CASE WHEN count(*) = 0 THEN false ELSE bool_or(r.sync_state IN ('sync', 'quorum')) END
          FROM pg_stat_replication r)

-- name: version
SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
       current_setting('transaction_isolation'), pg_is_in_recovery()
