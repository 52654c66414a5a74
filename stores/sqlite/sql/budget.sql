-- name: all
SELECT body FROM budgets ORDER BY name

-- name: delete
DELETE FROM budgets WHERE name = ?1

-- name: load
SELECT body FROM budgets WHERE name = ?1

-- name: save
INSERT INTO budgets (name, body) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET body = ?2
