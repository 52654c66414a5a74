-- What holds back a worker: its own stops, and the cool-downs of all. A cool-down whose trial nobody made for ten minutes is over.
WITH old AS (DELETE FROM nurse_tour_cool_downs WHERE until < now() - interval '10 minutes')
SELECT 'stop', s.provider, 0::bigint, s.why FROM nurse_tour_stops s WHERE s.worker = $1
 UNION ALL
SELECT 'cool', c.name, (extract(epoch FROM c.until - now()) * 1000)::bigint, c.why
  FROM nurse_tour_cool_downs c WHERE c.until >= now() - interval '10 minutes'
