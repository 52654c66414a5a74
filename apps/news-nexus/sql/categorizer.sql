SELECT e.id FROM ArtificialIntelligences a JOIN EntityWhoCategorizedArticles e ON e.artificialIntelligenceId = a.id
WHERE a.name = ?1 ORDER BY e.id LIMIT 1
