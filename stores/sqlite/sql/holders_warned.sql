SELECT slot FROM rarray(?1) AS freed CROSS JOIN holders INDEXED BY holders_warned ON slot = freed.value
WHERE warned = 1
