SELECT 1 FROM keys_taken INDEXED BY keys_taken_warned WHERE warned = 1 LIMIT 1
