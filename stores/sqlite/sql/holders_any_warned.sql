SELECT 1 FROM holders INDEXED BY holders_warned WHERE warned = 1 LIMIT 1
