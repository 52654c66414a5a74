-- One document for each message, whoever made it: an existing one stays as it is. Each value is in the type of its column.
INSERT INTO pending_care_documentations
       (id, phone_number, patient_id, patient_name, service_date, raw_content, translated_content_de, translated_content_en,
        translated_content_ar, translated_content_tr, original_language, kh_codes, structured_data, alerts, status, agency_id,
        message_sid, created_at)
OVERRIDING SYSTEM VALUE
SELECT {id}, regexp_replace(coalesce(w.from_number, ''), '^whatsapp:', ''), {patient_id},
       coalesce(o ->> 'patientName', ''), {service_date}, coalesce(w.transcript_text, ''),
       {de}, {en}, {ar}, {tr}, {language}, {kh_codes}, {structured_data}, {alerts}, {status}, {agency_id}, w.message_sid, {created_at}
  FROM written w CROSS JOIN LATERAL (SELECT w.wl_output) AS x (o)
ON CONFLICT (message_sid) WHERE message_sid IS NOT NULL DO NOTHING
