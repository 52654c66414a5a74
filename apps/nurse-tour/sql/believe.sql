-- The document that a message has, or the id of the one that it will have; the agency of the patient whom the model
-- heard, if that patient exists; the own name of the patient whom the message is about; and the name that the newest
-- care session has for that patient.
SELECT coalesce((SELECT d.id::text FROM pending_care_documentations d WHERE d.message_sid = $1), {new_id}),
       (SELECT p.agency_id::text FROM patients p
         WHERE p.id::text = $2 AND p.agency_id IS NOT NULL AND ($3 IS NULL OR p.agency_id::text = $3)),
       {own_name},
       (SELECT s.patient_name::text FROM whatsapp_care_sessions s
         WHERE s.patient_id::text = $4 AND btrim(s.patient_name::text) <> ''
         ORDER BY nurse_tour_moment(s.created_at::text) DESC NULLS LAST LIMIT 1)
