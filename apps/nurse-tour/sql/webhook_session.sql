-- A nurse who sends the text of a patient's code is at that patient's side from now on.
WITH said AS (SELECT substring($3 FROM '\(ID:\s*([^)\s]+)\s*\)') AS patient, substring($3 FROM 'für\s+(.*?)\s*\(ID:') AS name)
INSERT INTO whatsapp_care_sessions (id, phone_number, patient_id, patient_name, created_at, expires_at)
OVERRIDING SYSTEM VALUE
SELECT {id}, regexp_replace($2, '^whatsapp:', ''), {patient_id}, {patient_name}, {created_at}, {expires_at}
  FROM said
 WHERE EXISTS (SELECT FROM patients p WHERE p.id::text = said.patient)
    OR EXISTS (SELECT FROM patient_qr_codes q WHERE q.patient_id::text = said.patient)
ON CONFLICT DO NOTHING
