SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod)
  FROM unnest($1::text[]) AS wanted (name)
  JOIN pg_class c ON c.oid = to_regclass(wanted.name)
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
