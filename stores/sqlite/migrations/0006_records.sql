-- Documents that workers keep beside their jobs: windlass_core::record. A program of before can still work beside
-- this one; it leaves these tables alone.

CREATE TABLE records (
  id         INTEGER PRIMARY KEY,                -- stays when the record is written again
  shelf      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  sort       INTEGER NOT NULL,
  rev        INTEGER NOT NULL CHECK (rev > 0),
  written_ms INTEGER NOT NULL,
  expires_ms INTEGER,                            -- NULL: it is there until it is deleted
  label      TEXT,
  value      TEXT    NOT NULL                    -- the last: whatever is read before it lies on one page
) STRICT;

-- One for each order, and each order of one label: a page of a shelf is read without looking at anything else.
CREATE UNIQUE INDEX records_key ON records (shelf, key);
CREATE INDEX records_sort ON records (shelf, sort, key);
CREATE UNIQUE INDEX records_rev ON records (shelf, rev);
CREATE INDEX records_label_key ON records (shelf, label, key) WHERE label IS NOT NULL;
CREATE INDEX records_label_sort ON records (shelf, label, sort, key) WHERE label IS NOT NULL;
CREATE INDEX records_label_rev ON records (shelf, label, rev) WHERE label IS NOT NULL;
CREATE INDEX records_expires ON records (expires_ms) WHERE expires_ms IS NOT NULL;

-- What batches were answered, for those who ask again.
CREATE TABLE batches (
  id        BLOB    PRIMARY KEY CHECK (length(id) = 16),
  at_ms     INTEGER NOT NULL,
  first_rev INTEGER NOT NULL,
  writes    INTEGER NOT NULL,                    -- so many: their revisions follow each other
  jobs      BLOB                                 -- for each job 16 bytes of its id, and 1 when it was there before
) STRICT, WITHOUT ROWID;

CREATE INDEX batches_at ON batches (at_ms);

-- The newest revision that was given.
ALTER TABLE head ADD COLUMN next_rev INTEGER NOT NULL DEFAULT 0;
