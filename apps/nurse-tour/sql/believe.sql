-- The document that a message has, and the agency of the patient whom the model heard, if that patient exists.
SELECT (SELECT d.id::text FROM pending_care_documentations d WHERE d.message_sid = $1),
       (SELECT p.agency_id::text FROM patients p
         WHERE p.id::text = $2 AND p.agency_id IS NOT NULL AND ($3 IS NULL OR p.agency_id::text = $3))
