DELETE FROM dedupes WHERE dedupe_key = ?1
