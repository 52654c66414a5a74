-- Why nothing is claimed: of the whole fleet while a provider cools down, of one worker while its operator has to act.
SELECT NULL::text, c.name, coalesce(c.why, 'rate_limit ' || c.name), greatest(extract(epoch FROM c.until - now()), 0)::float8
  FROM nurse_tour_cool_downs c WHERE c.until > now() - interval '10 minutes'
 UNION ALL
SELECT s.worker, s.provider, s.why, greatest(extract(epoch FROM s.until - now()), 0)::float8
  FROM nurse_tour_stops s WHERE s.until > now() - interval '5 minutes'
 ORDER BY 1 NULLS FIRST, 2
