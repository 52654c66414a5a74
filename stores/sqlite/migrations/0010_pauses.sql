-- What a queue remembers of the leases that were claimed from it within a day: windlass_core::long_leases. The longest comes
-- first, and whoever comes later is shorter.
CREATE TABLE long_leases (
  queue    TEXT    NOT NULL,
  lease_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  PRIMARY KEY (queue, lease_ms)
) STRICT, WITHOUT ROWID;
INSERT INTO long_leases (queue, lease_ms, until_ms) SELECT queue, lease_ms, at_ms + 90000000 FROM longest;

-- For how long the epoch holds back jobs of a queue, fixed when it began; those of a queue that is not here as long as a lease
-- lasts of one that nobody has configured.
CREATE TABLE pauses (
  queue    TEXT    PRIMARY KEY,
  pause_ms INTEGER NOT NULL CHECK (pause_ms >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO pauses (queue, pause_ms)
SELECT n.queue, min(e.pause_max_ms, max(coalesce(json_extract(q.policy, '$.lease_ms'), 30000), coalesce(l.lease_ms, 0)))
FROM (SELECT name AS queue FROM queues UNION SELECT queue FROM longest) AS n
JOIN epoch AS e ON e.lossy = 1
LEFT JOIN queues AS q ON q.name = n.queue
LEFT JOIN longest AS l ON l.queue = n.queue AND l.at_ms >= e.began_ms - 86400000;

-- A program of before that still has the file open would remember nothing here: a claim that it makes with a longer lease is
-- refused.
DROP TABLE longest;
