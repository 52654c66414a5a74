-- Where it stands in the orders of its shelf is not touched, and neither are their indexes.
UPDATE records SET rev = ?2, written_ms = ?3, value = ?4 WHERE id = ?1
