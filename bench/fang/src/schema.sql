-- The table that fang 0.11 expects, with the indexes that its migration makes.
DO $$ BEGIN
    IF to_regclass('fang_tasks') IS NULL THEN
        CREATE EXTENSION IF NOT EXISTS "uuid-ossp";
        CREATE TYPE fang_task_state AS ENUM ('new', 'in_progress', 'failed', 'finished', 'retried');
        CREATE TABLE fang_tasks (
            id            uuid PRIMARY KEY DEFAULT uuid_generate_v4(),
            metadata      jsonb NOT NULL,
            error_message text,
            state         fang_task_state NOT NULL DEFAULT 'new',
            task_type     text NOT NULL DEFAULT 'common',
            uniq_hash     text,
            retries       integer NOT NULL DEFAULT 0,
            scheduled_at  timestamptz NOT NULL DEFAULT now(),
            created_at    timestamptz NOT NULL DEFAULT now(),
            updated_at    timestamptz NOT NULL DEFAULT now()
        );
        CREATE INDEX ON fang_tasks (state);
        CREATE INDEX ON fang_tasks (task_type);
        CREATE INDEX ON fang_tasks (scheduled_at);
        CREATE INDEX ON fang_tasks (uniq_hash);
    END IF;
END $$;
