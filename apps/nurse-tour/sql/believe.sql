SELECT p.agency_id::text FROM patients p
 WHERE p.id::text = $1 AND p.agency_id IS NOT NULL AND ($2::text IS NULL OR p.agency_id::text = $2)
