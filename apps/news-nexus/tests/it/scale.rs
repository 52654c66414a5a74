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
    house.openai.faults.always(windlass_standins::Fault::Status(500, None));
    let body = r#"{"targetArticleThresholdDaysOld": 180, "targetArticleStateReviewCount": 1}"#;
    // The quickest of three counts: others may use the machine meanwhile.
    for _ in 0..3 {
        // Without a model the scorer ends when it has selected; the line before says how many.
        server.run(SCORER, "", "failed").await;
        server.run(STATES, body, "completed").await;
    }
    let log = house.read("logs/WorkerNode.log");
    for phrase in ["Selected articles without a score", "Selected articles without a state"] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(phrase)).collect();
        assert_eq!(lines.len(), 3, "{log}");
        let numbers = |name: &str| {
            let parted = format!(" {name}=");
            let number = move |line: &&str| -> u64 {
                let value = line.split(&parted).nth(1).and_then(|rest| rest.split(' ').next());
                value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("a number in {line}"))
            };
            lines.iter().map(number).collect::<Vec<_>>()
        };
        eprintln!("{lines:#?}");
        assert!(numbers("tookMs").into_iter().min() < Some(1_000), "{lines:#?}");
        assert!(numbers("memoryMib").into_iter().max() < Some(100), "{lines:#?}");
    }
    assert!(log.contains("articles=2000"), "{log}");
}
