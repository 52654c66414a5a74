-- Whether a function is there as it stands in our file, with the trigger that calls it.
SELECT EXISTS (SELECT FROM pg_proc WHERE proname = $1 AND pronamespace = ANY (current_schemas(false)::regnamespace[])
                  AND position(prosrc IN $3) > 0)
   AND ($2 IS NULL OR EXISTS (SELECT FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
                               WHERE g.tgname = $2 AND c.relnamespace = ANY (current_schemas(false)::regnamespace[])))
