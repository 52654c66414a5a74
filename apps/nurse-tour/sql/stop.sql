-- Why a worker claims nothing, for whoever asks. Workers that are gone do not take theirs back: others do, a day later.
WITH old AS (DELETE FROM nurse_tour_stops WHERE until < now() - interval '1 day')
INSERT INTO nurse_tour_stops AS s (worker, provider, why, since, until)
VALUES ($1, $2, $3, now(), now() + $4::bigint * interval '1 millisecond')
ON CONFLICT (worker, provider) DO UPDATE SET why = excluded.why, until = excluded.until
