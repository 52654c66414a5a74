INSERT INTO whatsapp_inbound_messages
       (message_sid, from_number, message_type, media_url, body, profile_name, received_at, current_stage, processing_status, retry_count)
VALUES ($1, $2, $3, {media_url}, $5, {profile_name}, {received_at}, 'RECEIVED', {processing_status}, 0)
ON CONFLICT DO NOTHING
RETURNING message_sid
