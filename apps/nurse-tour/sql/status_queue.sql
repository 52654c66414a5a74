-- The statuses are compared one by one, so that the finished ones need not be read.
SELECT coalesce(t.processing_status, 'none'), coalesce(t.current_stage, 'RECEIVED'), count(*)
  FROM whatsapp_inbound_messages t
 WHERE t.message_type = 'voice' AND (cardinality($1::text[]) = 0 OR t.processing_status = ANY ($1))
 GROUP BY 1, 2 ORDER BY 1, 2
