-- Whether an index begins with this column, or is of some of its words alone.
SELECT EXISTS (
    SELECT FROM pg_index i LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
     WHERE i.indrelid = to_regclass($1)
       AND (a.attname = $2 OR position($2 IN pg_get_expr(i.indpred, i.indrelid)) > 0))
