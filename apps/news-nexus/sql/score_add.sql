-- Of an article that somebody has deleted meanwhile nothing is written.
INSERT INTO ArticleEntityWhoCategorizedArticleContracts (articleId, entityWhoCategorizesId, keyword, keywordRating,
  createdAt, updatedAt)
SELECT ?1, ?2, ?3, ?4, ?5, ?5 WHERE EXISTS (SELECT 1 FROM Articles WHERE id = ?1)
ON CONFLICT (articleId, entityWhoCategorizesId, keyword)
DO UPDATE SET keywordRating = excluded.keywordRating, updatedAt = excluded.updatedAt
