SELECT e.xid::text, e.pos FROM windlass.events e
 WHERE e.xid < $1::text::xid8
 ORDER BY e.xid DESC, e.pos DESC LIMIT 1
