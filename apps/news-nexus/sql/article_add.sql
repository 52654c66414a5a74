INSERT INTO Articles (publicationName, title, description, url, publishedDate, entityWhoFoundArticleId, newsApiRequestId,
  createdAt, updatedAt)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
