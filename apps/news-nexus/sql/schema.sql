-- The tables as the News Nexus database has them. Created where they are missing; what is there is never changed,
-- since other programs own it, too. No index is added for the same reason.

CREATE TABLE IF NOT EXISTS `Users` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `username` VARCHAR(255) NOT NULL,
  `email` VARCHAR(255) NOT NULL,
  `password` VARCHAR(255) NOT NULL,
  `isAdmin` TINYINT(1) DEFAULT 0,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `NewsArticleAggregatorSources` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `nameOfOrg` VARCHAR(255),
  `url` VARCHAR(255),
  `apiKey` VARCHAR(255),
  `isApi` TINYINT(1) DEFAULT 0,
  `isRss` TINYINT(1) DEFAULT 0,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `EntityWhoFoundArticles` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `userId` INTEGER REFERENCES `Users` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `newsArticleAggregatorSourceId` INTEGER REFERENCES `NewsArticleAggregatorSources` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `NewsApiRequests` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `newsArticleAggregatorSourceId` INTEGER NOT NULL REFERENCES `NewsArticleAggregatorSources` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `countOfArticlesReceivedFromRequest` INTEGER,
  `countOfArticlesSavedToDbFromRequest` INTEGER,
  `countOfArticlesAvailableFromRequest` INTEGER,
  `dateStartOfRequest` DATE,
  `dateEndOfRequest` DATE,
  `status` VARCHAR(255),
  `url` VARCHAR(255),
  `andString` VARCHAR(255),
  `orString` VARCHAR(255),
  `notString` VARCHAR(255),
  `isFromAutomation` TINYINT(1) DEFAULT 0,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
-- `newsRssRequestId` names a table that nobody uses and nobody creates; a reference to it would refuse every row.
CREATE TABLE IF NOT EXISTS `Articles` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `publicationName` VARCHAR(255),
  `author` VARCHAR(255),
  `title` VARCHAR(255),
  `description` VARCHAR(255),
  `url` VARCHAR(255),
  `urlToImage` VARCHAR(255),
  `publishedDate` DATE,
  `entityWhoFoundArticleId` INTEGER REFERENCES `EntityWhoFoundArticles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `newsApiRequestId` INTEGER REFERENCES `NewsApiRequests` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `newsRssRequestId` INTEGER,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `ArticleContents` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `articleId` INTEGER NOT NULL REFERENCES `Articles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `content` VARCHAR(255) NOT NULL,
  `scrapeStatusCheerio` TINYINT(1),
  `scrapeStatusPuppeteer` TINYINT(1),
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `ArticleContents02` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `articleId` INTEGER NOT NULL REFERENCES `Articles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `url` TEXT,
  `googleRssUrl` TEXT NOT NULL,
  `googleFinalUrl` TEXT,
  `publisherFinalUrl` TEXT,
  `title` TEXT,
  `content` TEXT,
  `status` VARCHAR(255) NOT NULL,
  `failureType` VARCHAR(255),
  `details` TEXT NOT NULL DEFAULT '',
  `extractionSource` VARCHAR(255) NOT NULL DEFAULT 'none',
  `bodySource` VARCHAR(255) NOT NULL DEFAULT 'none',
  `googleStatusCode` INTEGER,
  `publisherStatusCode` INTEGER,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `ArtificialIntelligences` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `name` VARCHAR(255) NOT NULL,
  `description` VARCHAR(255),
  `huggingFaceModelName` VARCHAR(255),
  `huggingFaceModelType` VARCHAR(255),
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `EntityWhoCategorizedArticles` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `userId` INTEGER REFERENCES `Users` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `artificialIntelligenceId` INTEGER REFERENCES `ArtificialIntelligences` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `ArticleEntityWhoCategorizedArticleContracts` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `articleId` INTEGER NOT NULL REFERENCES `Articles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `entityWhoCategorizesId` INTEGER NOT NULL REFERENCES `EntityWhoCategorizedArticles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `keyword` VARCHAR(255),
  `keywordRating` FLOAT,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL,
  UNIQUE (`articleId`, `entityWhoCategorizesId`, `keyword`)
);
CREATE TABLE IF NOT EXISTS `ArticleApproveds` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `userId` INTEGER NOT NULL REFERENCES `Users` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `articleId` INTEGER NOT NULL REFERENCES `Articles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `isApproved` TINYINT(1) DEFAULT 1,
  `headlineForPdfReport` VARCHAR(255),
  `publicationNameForPdfReport` VARCHAR(255),
  `publicationDateForPdfReport` DATE,
  `textForPdfReport` VARCHAR(255),
  `urlForPdfReport` VARCHAR(255),
  `kmNotes` VARCHAR(255),
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `ArticleIsRelevants` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `userId` INTEGER NOT NULL REFERENCES `Users` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `articleId` INTEGER NOT NULL REFERENCES `Articles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `isRelevant` TINYINT(1) DEFAULT 1,
  `kmNotes` VARCHAR(255),
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `States` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `name` VARCHAR(255) NOT NULL,
  `abbreviation` VARCHAR(255) NOT NULL,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `Prompts` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `promptInMarkdown` TEXT NOT NULL,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
CREATE TABLE IF NOT EXISTS `ArticleStateContracts` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `articleId` INTEGER NOT NULL REFERENCES `Articles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `stateId` INTEGER NOT NULL REFERENCES `States` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL,
  UNIQUE (`articleId`, `stateId`)
);
CREATE TABLE IF NOT EXISTS `ArticleStateContracts02` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `articleId` INTEGER NOT NULL REFERENCES `Articles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `stateId` INTEGER REFERENCES `States` (`id`) ON DELETE SET NULL ON UPDATE CASCADE,
  `entityWhoCategorizesId` INTEGER NOT NULL REFERENCES `EntityWhoCategorizedArticles` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `promptId` INTEGER NOT NULL REFERENCES `Prompts` (`id`) ON DELETE CASCADE ON UPDATE CASCADE,
  `isHumanApproved` TINYINT(1) NOT NULL DEFAULT 0,
  `isDeterminedToBeError` TINYINT(1) NOT NULL DEFAULT 0,
  `occuredInTheUS` TINYINT(1),
  `reasoning` VARCHAR(255),
  `createdAt` DATETIME NOT NULL,
  `updatedAt` DATETIME NOT NULL
);
