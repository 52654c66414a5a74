-- The articles without a score of ours. The inner list is built once; no index is needed for it.
SELECT id FROM Articles
WHERE id NOT IN (SELECT articleId FROM ArticleEntityWhoCategorizedArticleContracts WHERE entityWhoCategorizesId = ?1)
ORDER BY id
