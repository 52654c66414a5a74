-- The best content: what was scraped in full, what came with the feed, the description.
SELECT title, description,
  (SELECT content FROM ArticleContents02 WHERE articleId = a.id AND length(content) >= 200
   ORDER BY status = 'success' DESC, length(content) DESC, id DESC LIMIT 1),
  (SELECT content FROM ArticleContents WHERE articleId = a.id ORDER BY id LIMIT 1)
FROM Articles a WHERE id = ?1
