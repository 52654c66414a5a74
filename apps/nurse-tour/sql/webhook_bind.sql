UPDATE whatsapp_inbound_messages t
   SET agency_id = b.agency, patient_id = b.patient, patient_name = b.patient_name, care_session_id = b.session
  FROM nurse_tour_bind($1) b
 WHERE t.message_sid = $1
