-- Whether a trigger of the owner's sees rows before they are inserted, and before they are updated: it may fill
-- whatever it likes.
SELECT coalesce(bool_or(g.tgtype & 7 = 7), false), coalesce(bool_or(g.tgtype & 19 = 19), false)
  FROM pg_trigger g
 WHERE g.tgrelid = to_regclass($1) AND NOT g.tgisinternal AND g.tgenabled <> 'D'
