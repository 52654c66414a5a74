INSERT INTO ArtificialIntelligences (name, description, huggingFaceModelName, huggingFaceModelType, createdAt, updatedAt)
SELECT ?1, ?2, ?3, ?4, ?5, ?5 WHERE NOT EXISTS (SELECT 1 FROM ArtificialIntelligences WHERE name = ?1)
