-- For how long an epoch holds back jobs is fixed when it begins, and a queue remembers all leases of a day that matter for it:
-- windlass_core::epoch, windlass_core::long_leases. Programs of the tenth schema that are running go on: the functions that they
-- call are replaced in the same commit. A call of theirs that waits for this commit may still write to "longest", and
-- their statements name it, so that table stays until the schema after this one, and an epoch that begins looks at both.
CREATE TABLE windlass.long_leases (
    queue    text   NOT NULL,
    lease_ms bigint NOT NULL,
    until_ms bigint NOT NULL,
    PRIMARY KEY (queue, lease_ms)
);

-- Of a queue that is not here: as long as a lease lasts of one that nobody has configured.
CREATE TABLE windlass.pauses (
    queue    text   PRIMARY KEY,
    pause_ms bigint NOT NULL CHECK (pause_ms >= 0)
);

-- Of an epoch that holds back something now.
INSERT INTO windlass.pauses (queue, pause_ms)
SELECT n.queue, least(e.pause_max_ms, greatest(coalesce(q.lease_ms, 30000), coalesce(l.lease_ms, 0)))
  FROM windlass.epoch e
 CROSS JOIN (SELECT q.name AS queue FROM windlass.queues q UNION SELECT l.queue FROM windlass.longest l) n
  LEFT JOIN windlass.queues q ON q.name = n.queue
  LEFT JOIN windlass.longest l ON l.queue = n.queue AND l.at_ms >= e.began_ms - 86400000
 WHERE e.lossy;
