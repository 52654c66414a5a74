SELECT slot FROM rarray(?1) AS freed CROSS JOIN keys_taken INDEXED BY keys_taken_warned ON slot = freed.value
WHERE warned = 1
