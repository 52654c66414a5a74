-- Delayed jobs stand by their queue, so that a claim looks at those of the queues that it names, and they are counted, so that
-- nobody who wants to know how many they are has to read them. Programs of the ninth schema that are running go on: the
-- functions that they call stay, and are replaced in the same commit. A call of theirs that waits for this commit goes
-- on with what it has read of its function before: so the counting is the table's own affair, and nothing is taken away.
ALTER TABLE windlass.delayed DROP CONSTRAINT delayed_pkey, ADD PRIMARY KEY (queue, run_at_ms, seq);

-- What of "tally" is 2: delayed jobs of a queue.
INSERT INTO windlass.tally (what, name, delta) SELECT 2, d.queue, count(*) FROM windlass.delayed d GROUP BY d.queue;

CREATE FUNCTION windlass.count_delayed_1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO windlass.tally (what, name, delta) SELECT 2, d.queue, count(*) FROM added d GROUP BY d.queue;
    ELSE
        INSERT INTO windlass.tally (what, name, delta) SELECT 2, d.queue, -count(*) FROM gone d GROUP BY d.queue;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER delayed_more AFTER INSERT ON windlass.delayed
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION windlass.count_delayed_1();
CREATE TRIGGER delayed_fewer AFTER DELETE ON windlass.delayed
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION windlass.count_delayed_1();
