CREATE SCHEMA IF NOT EXISTS windlass;
CREATE TABLE IF NOT EXISTS windlass.migrations (
    version    integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
