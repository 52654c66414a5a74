SELECT id FROM NewsArticleAggregatorSources WHERE nameOfOrg = ?1 ORDER BY id LIMIT 1
