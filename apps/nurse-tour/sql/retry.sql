WITH held AS MATERIALIZED (
    SELECT t.message_sid, t.processing_status AS from_status
      FROM whatsapp_inbound_messages t
     WHERE t.message_sid = ANY ($1) AND t.processing_status IN ('FAILED', 'TRIAGE') AND t.message_type = 'voice'
     ORDER BY t.message_sid FOR UPDATE OF t
),
written AS (
    UPDATE whatsapp_inbound_messages t
       SET processing_status = 'RETRY', retry_count = 0, crash_count = 0, next_attempt_at = NULL, locked_by = NULL,
           locked_until = NULL, failed_reason = NULL, failed_stage = NULL
      FROM held
     WHERE t.message_sid = held.message_sid
    RETURNING t.message_sid, t.fence, t.current_stage, held.from_status
),
audited AS (
    INSERT INTO nurse_tour_audit (message_sid, at, worker, fence, from_stage, to_stage, from_status, to_status, attempt, outcome)
    SELECT message_sid, clock_timestamp(), 'operator', fence, coalesce(current_stage, 'RECEIVED'), coalesce(current_stage, 'RECEIVED'),
           from_status, 'RETRY', 0, 'retried'
      FROM written
)
SELECT message_sid::text FROM written
