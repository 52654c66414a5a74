SELECT body FROM workers ORDER BY name
