//! A database as large as the real one: 250,000 articles, 2,000 of them new.

use crate::house::{House, SCORER, STATES};

/// Selecting costs under a second and under 100 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarter_of_a_million_articles() {
    let house = House::new().await;
    let tables = house.tables();
    tables
        .0
        .execute_batch(
            "PRAGMA synchronous = OFF; BEGIN;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)
             INSERT INTO Articles (id, title, description, url, publishedDate, createdAt, updatedAt)
             SELECT i, 'Title ' || i, 'A description of about a hundred and fifty characters, as Google gives them: the headline once more, the paper, and the day. Number ' || i,
               'https://news.example/articles/' || hex(randomblob(60)), date('now'), '', '' FROM n;
             INSERT INTO ArticleEntityWhoCategorizedArticleContracts (articleId, entityWhoCategorizesId, keyword, keywordRating, createdAt, updatedAt)
             SELECT id, 11, 'fire', 0.5, '', '' FROM Articles WHERE id % 125 <> 0;
             INSERT INTO ArticleStateContracts02 (articleId, entityWhoCategorizesId, promptId, createdAt, updatedAt)
             SELECT id, 12, 2, '', '' FROM Articles WHERE id % 125 <> 0;
             COMMIT;",
        )
        .unwrap();
    let server = house.start().await;
    // Without a model the scorer ends when it has selected; the line before says how many.
    server.run(SCORER, "", "failed").await;
    let body = r#"{"targetArticleThresholdDaysOld": 180, "targetArticleStateReviewCount": 1}"#;
    house.openai.faults.always(windlass_standins::Fault::Status(500, None));
    server.run(STATES, body, "completed").await;
    let log = house.read("logs/WorkerNode.log");
    for line in ["Selected articles without a score", "Selected articles without a state"] {
        let line = log.lines().find(|found| found.contains(line)).unwrap_or_else(|| panic!("{log}"));
        let number = |name: &str| -> u64 {
            let value = line.split(&format!(" {name}=")).nth(1).and_then(|rest| rest.split(' ').next());
            value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {line}"))
        };
        eprintln!("{line}");
        assert!(number("tookMs") < 1_000, "{line}");
        assert!(number("memoryMib") < 100, "{line}");
    }
    assert!(log.contains("articles=2000"), "{log}");
}
