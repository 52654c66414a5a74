INSERT INTO Prompts (promptInMarkdown, createdAt, updatedAt) VALUES (?1, ?2, ?2)
