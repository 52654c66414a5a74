-- A reason of ours is a class and a code; what another worker wrote may hold anything, and is not shown.
SELECT t.processing_status,
       CASE WHEN t.failed_reason ~ '^[a-z_]+ [a-z]+\.[A-Za-z0-9_.-]+( status=[0-9]+)?$' THEN t.failed_reason
            WHEN t.failed_reason LIKE 'the lease ran out%' THEN 'crashed'
            WHEN t.failed_reason LIKE 'exhausted%' THEN 'exhausted'
            ELSE 'other' END,
       count(*), min(t.message_sid::text)
  FROM whatsapp_inbound_messages t
 WHERE t.message_type = 'voice' AND t.processing_status IN ('FAILED', 'TRIAGE')
 GROUP BY 1, 2 ORDER BY 3 DESC, 2 LIMIT 50
