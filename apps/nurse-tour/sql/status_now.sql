-- How long the oldest message waits that could be worked, and what is held. The first is found by the index of the claim, the
-- others are as few as there are slots: however many messages wait, this is soon said.
SELECT (SELECT extract(epoch FROM now() - nurse_tour_moment(t.received_at::text))::float8
          FROM whatsapp_inbound_messages t
         WHERE t.processing_status IN ('READY', 'RETRY', 'PROCESSING') AND t.message_type = 'voice' AND t.processing_status <> 'PROCESSING'
           AND coalesce(CASE WHEN t.processing_status = 'PROCESSING' THEN nurse_tour_moment(t.locked_until::text)
                             ELSE nurse_tour_moment(t.next_attempt_at::text) END, '-infinity'::timestamptz) <= now()
           AND nurse_tour_moment(t.received_at::text) IS NOT NULL
         ORDER BY nurse_tour_moment(t.received_at::text) NULLS FIRST, t.message_sid LIMIT 1),
       count(*) FILTER (WHERE h.until > now()),
       count(*) FILTER (WHERE coalesce(h.until <= now(), true))
  FROM (SELECT nurse_tour_moment(t.locked_until::text) AS until
          FROM whatsapp_inbound_messages t
         WHERE t.message_type = 'voice' AND t.processing_status = 'PROCESSING') h
