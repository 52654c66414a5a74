-- name: begin
CREATE SCHEMA IF NOT EXISTS windlass;
CREATE TABLE IF NOT EXISTS windlass.migrations (
    version    integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: exists
SELECT to_regclass('windlass.migrations') IS NOT NULL

-- name: lock
SELECT pg_advisory_xact_lock(7593264152037148)::text

-- name: note
INSERT INTO windlass.migrations (version) VALUES ($1)

-- name: version
SELECT max(version) FROM windlass.migrations
