-- Documents that workers keep beside their jobs: windlass_core::record.

-- Functions are made anew with each version of the schema.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE p.pronamespace = 'windlass'::regnamespace LOOP
        EXECUTE 'DROP FUNCTION ' || f.name;
    END LOOP;
END $$;

-- Revisions are taken while the shelf is locked, so that on one shelf they become visible in their order.
CREATE SEQUENCE windlass.record_rev AS bigint CACHE 1;

-- Names are compared byte by byte, whatever the database's own order is.
CREATE TABLE windlass.records (
    shelf      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    sort       bigint NOT NULL,
    rev        bigint NOT NULL CHECK (rev > 0),
    written_ms bigint NOT NULL,
    expires_ms bigint,                           -- NULL: it is there until it is deleted
    label      text COLLATE "C",
    value      text NOT NULL,
    PRIMARY KEY (shelf, key)
);

-- One for each order, and each order of one label: a page of a shelf is read without looking at anything else.
CREATE INDEX records_sort ON windlass.records (shelf, sort, key);
CREATE UNIQUE INDEX records_rev ON windlass.records (shelf, rev);
CREATE INDEX records_label_key ON windlass.records (shelf, label, key) WHERE label IS NOT NULL;
CREATE INDEX records_label_sort ON windlass.records (shelf, label, sort, key) WHERE label IS NOT NULL;
CREATE INDEX records_label_rev ON windlass.records (shelf, label, rev) WHERE label IS NOT NULL;
CREATE INDEX records_expires ON windlass.records (expires_ms) WHERE expires_ms IS NOT NULL;

-- What batches were answered, for those who ask again.
CREATE TABLE windlass.batches (
    id           uuid PRIMARY KEY,
    at_ms        bigint NOT NULL,
    revs         bigint[] NOT NULL,
    jobs         uuid[] NOT NULL,
    deduplicated boolean[] NOT NULL,
    CHECK (cardinality(jobs) = cardinality(deduplicated))
);

CREATE INDEX batches_at ON windlass.batches (at_ms);
