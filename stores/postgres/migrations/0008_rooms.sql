-- A claim looks at the gates of the queues that it names, and at no other.

-- Functions are made anew with each version of the schema.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE p.pronamespace = 'windlass'::regnamespace LOOP
        EXECUTE 'DROP FUNCTION ' || f.name;
    END LOOP;
END $$;

-- The gates of a queue stand beside each other, and among them those of a kind. A room is made of a hash of each, so
-- that two may share one by chance: then a claim for the one steps over the gates of the other. The same as
-- windlass.room_1; a generated column cannot call a function that is made anew.
ALTER TABLE windlass.ready ADD COLUMN room bigint GENERATED ALWAYS AS (
    (hashtextextended(split_part(label, chr(31), 1), 0) & -4294967296)
    | (hashtextextended(split_part(label, chr(31), 2), 0) & 4294967295)) STORED;
ALTER TABLE windlass.ready DROP CONSTRAINT ready_pkey, ADD PRIMARY KEY (room, gate, rank, seq);
