-- Newest first, young enough, without a state from anybody, and not found irrelevant.
SELECT id FROM Articles
WHERE publishedDate IS NOT NULL AND publishedDate >= ?1
  AND id NOT IN (SELECT articleId FROM ArticleStateContracts02)
  AND id NOT IN (SELECT articleId FROM ArticleStateContracts)
  AND id NOT IN (SELECT articleId FROM ArticleIsRelevants WHERE isRelevant = 0)
ORDER BY id DESC LIMIT ?2
