SELECT id FROM EntityWhoFoundArticles WHERE newsArticleAggregatorSourceId = ?1 ORDER BY id LIMIT 1
