-- Whether a trigger of the owner's sees rows before they are inserted: it may fill whatever it likes.
SELECT EXISTS (SELECT FROM pg_trigger g
                WHERE g.tgrelid = to_regclass($1) AND NOT g.tgisinternal AND g.tgtype & 7 = 7 AND g.tgenabled <> 'D')
