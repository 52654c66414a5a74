-- Whom a message is about. Each way knows a patient and an agency; the message's own agency comes first, and a patient
-- of another agency is not believed.
-- It is a function so that its plan is kept: planning it takes longer than running it.
CREATE OR REPLACE FUNCTION nurse_tour_bind(sid text, OUT agency text, OUT patient text, OUT patient_name text, OUT session text)
    LANGUAGE plpgsql STABLE
AS $bind$
#variable_conflict use_column
BEGIN
    WITH m AS (
        SELECT nullif(nullif(btrim(t.agency_id::text), ''), 'unknown') AS agency, nullif(t.patient_id::text, '') AS patient,
               nullif(btrim(t.patient_name::text), '') AS patient_name, t.care_session_id::text AS session,
               regexp_replace(t.from_number, '^whatsapp:', '') AS phone, substring(t.body FROM 'für\s+(.*?)\s*\(ID:') AS said_name,
               substring(t.body FROM '\(ID:\s*([^)\s]+)\s*\)') AS said,
               coalesce(nurse_tour_moment(t.received_at::text), now()) AS at
          FROM whatsapp_inbound_messages t
         WHERE t.message_sid = nurse_tour_bind.sid
    ),
    ways AS (
        SELECT 1 AS way, m.patient, m.patient_name AS name, m.session, NULL::text AS agency FROM m WHERE m.patient IS NOT NULL
        UNION ALL
        (SELECT 2, s.patient_id::text, nullif(btrim(s.patient_name::text), ''), s.id::text,
                (SELECT CASE WHEN count(DISTINCT q.agency_id) = 1 THEN min(q.agency_id::text) END
                   FROM patient_qr_codes q WHERE q.patient_id::text = s.patient_id::text)
           FROM m JOIN whatsapp_care_sessions s ON regexp_replace(s.phone_number, '^whatsapp:', '') = m.phone
          WHERE nurse_tour_moment(s.created_at::text) <= m.at AND nurse_tour_moment(s.expires_at::text) > m.at
          ORDER BY nurse_tour_moment(s.created_at::text) DESC LIMIT 1)
        UNION ALL
        SELECT 3, p.id::text, m.said_name, NULL, p.agency_id::text FROM m JOIN patients p ON p.id::text = m.said
    ),
    known AS (
        SELECT w.way, w.patient, w.name, w.session, coalesce(w.agency, p.agency_id::text) AS agency
          FROM ways w LEFT JOIN patients p ON p.id::text = w.patient
    )
    SELECT coalesce(m.agency, k.agency), k.patient, k.name, k.session
          INTO nurse_tour_bind.agency, nurse_tour_bind.patient, nurse_tour_bind.patient_name, nurse_tour_bind.session
      FROM m LEFT JOIN LATERAL (
          SELECT * FROM known k WHERE m.agency IS NULL OR k.agency IS NULL OR k.agency = m.agency ORDER BY k.way LIMIT 1
      ) k ON true;
END
$bind$
