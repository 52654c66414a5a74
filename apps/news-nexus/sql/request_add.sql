INSERT INTO NewsApiRequests (newsArticleAggregatorSourceId, countOfArticlesReceivedFromRequest,
  countOfArticlesSavedToDbFromRequest, dateEndOfRequest, status, url, andString, orString, isFromAutomation,
  createdAt, updatedAt)
VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?8)
