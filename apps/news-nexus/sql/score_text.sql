SELECT description, title,
  (SELECT textForPdfReport FROM ArticleApproveds WHERE articleId = a.id ORDER BY id LIMIT 1)
FROM Articles a WHERE id = ?1
