INSERT INTO EntityWhoCategorizedArticles (artificialIntelligenceId, createdAt, updatedAt)
SELECT id, ?2, ?2 FROM ArtificialIntelligences WHERE name = ?1 ORDER BY id LIMIT 1
