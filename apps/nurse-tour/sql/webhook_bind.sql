UPDATE whatsapp_inbound_messages t
   SET agency_id = {agency_id}, patient_id = {patient_id}, patient_name = {patient_name}, care_session_id = {care_session_id}
  FROM nurse_tour_bind($1) b
 WHERE t.message_sid = $1
