SELECT extract(epoch FROM now() - min(coalesce(nurse_tour_moment(t.received_at::text), now()))
           FILTER (WHERE t.processing_status IN ('READY', 'RETRY') AND coalesce(nurse_tour_moment(t.next_attempt_at::text) <= now(), true)))::float8,
       count(*) FILTER (WHERE t.processing_status = 'PROCESSING' AND nurse_tour_moment(t.locked_until::text) > now()),
       count(*) FILTER (WHERE t.processing_status = 'PROCESSING' AND coalesce(nurse_tour_moment(t.locked_until::text) <= now(), true))
  FROM whatsapp_inbound_messages t
 WHERE t.message_type = 'voice' AND t.processing_status IN ('READY', 'RETRY', 'PROCESSING')
