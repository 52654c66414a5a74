-- After a cool-down one message of the whole fleet tries whether it is over; the next one tries later.
UPDATE nurse_tour_cool_downs
   SET trial_until = now() + $1::bigint * interval '1 millisecond'
 WHERE until <= now() AND (trial_until IS NULL OR trial_until <= now())
RETURNING name
