SELECT id, promptInMarkdown FROM Prompts ORDER BY id DESC LIMIT 1
