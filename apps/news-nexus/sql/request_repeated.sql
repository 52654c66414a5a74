-- Only a request that succeeded counts: one that timed out was not done.
SELECT EXISTS (SELECT 1 FROM NewsApiRequests WHERE url = ?1 AND status = 'success' AND createdAt >= ?2)
