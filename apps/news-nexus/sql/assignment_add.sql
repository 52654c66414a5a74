-- Of an article that somebody has deleted meanwhile nothing is written.
INSERT INTO ArticleStateContracts02 (articleId, stateId, entityWhoCategorizesId, promptId, isHumanApproved,
  isDeterminedToBeError, occuredInTheUS, reasoning, createdAt, updatedAt)
SELECT ?1, ?2, ?3, ?4, 0, 0, ?5, ?6, ?7, ?7 WHERE EXISTS (SELECT 1 FROM Articles WHERE id = ?1)
