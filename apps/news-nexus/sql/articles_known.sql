-- Which of these addresses are there already, among articles after ?2. One walk over the table for a whole feed:
-- the address has no index, and the table is not ours to give it one.
SELECT DISTINCT url FROM Articles WHERE id > ?2 AND url IN (SELECT value FROM json_each(?1))
