-- name: picked
SELECT * FROM windlass.claim_3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: plain
SELECT * FROM windlass.claim_3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: survey
SELECT * FROM windlass.survey_1($1, $2, $3, $4, $5, $6, $7, $8)
