INSERT INTO ArticleContents (articleId, content, createdAt, updatedAt) VALUES (?1, ?2, ?3, ?3)
