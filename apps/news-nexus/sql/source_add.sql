INSERT INTO NewsArticleAggregatorSources (nameOfOrg, isApi, isRss, createdAt, updatedAt) VALUES (?1, 0, 1, ?2, ?2)
