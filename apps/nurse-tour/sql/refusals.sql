-- Constraints that are about a column and do not name a word that is written into it.
SELECT c.conname::text, w.word
  FROM pg_constraint c CROSS JOIN unnest($3::text[]) AS w (word)
 WHERE c.conrelid = to_regclass($1) AND c.contype = 'c'
   AND pg_get_constraintdef(c.oid) ~ ('\m' || $2 || '\M') AND pg_get_constraintdef(c.oid) LIKE '%''%'
   AND position(quote_literal(w.word) IN pg_get_constraintdef(c.oid)) = 0
 ORDER BY 1, 2
