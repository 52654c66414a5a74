UPDATE NewsApiRequests SET countOfArticlesSavedToDbFromRequest = ?2 WHERE id = ?1
