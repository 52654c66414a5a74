INSERT INTO EntityWhoFoundArticles (newsArticleAggregatorSourceId, createdAt, updatedAt) VALUES (?1, ?2, ?2)
