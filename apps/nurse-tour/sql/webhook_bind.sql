WITH bound (agency, patient, name, session) AS (
{bind}
)
UPDATE whatsapp_inbound_messages t
   SET agency_id = bound.agency, patient_id = bound.patient, patient_name = bound.name, care_session_id = bound.session
  FROM bound
 WHERE t.message_sid = $1
