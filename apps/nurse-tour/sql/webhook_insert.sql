INSERT INTO whatsapp_inbound_messages
       (message_sid, from_number, message_type, media_url, body, profile_name, received_at, current_stage, processing_status, retry_count)
VALUES ($1, $2, $3, $4, $5, $6, {received_at}, 'RECEIVED', CASE WHEN $3 = 'voice' THEN 'READY' END, 0)
ON CONFLICT DO NOTHING
RETURNING message_sid
