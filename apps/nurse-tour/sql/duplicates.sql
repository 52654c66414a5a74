-- Whether two rows share a value that must be unique.
SELECT EXISTS (SELECT FROM {table} WHERE message_sid IS NOT NULL GROUP BY message_sid HAVING count(*) > 1)
