-- The columns of our tables: type, whether they must be filled, what fills them by itself, an enum's words, the
-- default, and whether they point to another table.
SELECT wanted.name, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.atthasdef OR a.attidentity <> '', a.attidentity::text,
       CASE WHEN a.attidentity <> '' THEN pg_get_serial_sequence(wanted.name, a.attname)
            ELSE substring(pg_get_expr(d.adbin, d.adrelid) FROM 'nextval\(''(.*)''::regclass\)') END,
       (SELECT array_agg(e.enumlabel::text) FROM pg_enum e WHERE e.enumtypid = a.atttypid),
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
       EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f' AND a.attnum = ANY (k.conkey))
  FROM unnest($1::text[]) AS wanted (name)
  JOIN pg_class c ON c.oid = to_regclass(wanted.name)
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
