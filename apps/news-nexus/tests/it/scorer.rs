//! semantic-scorer: which keyword an article is nearest to.

use serde_json::{Value, json};
use windlass_standins::xlsx;
use windlass_testkit::eventually::eventually;

use crate::house::{House, SCORER};

/// A house with the real model in its place.
async fn house_with_model() -> House {
    let house = House::new().await;
    let model = windlass_testkit::model::folder();
    std::fs::create_dir_all(house.path("scorer/model")).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::os::unix::fs::symlink(model.join(name), house.path("scorer/model").join(name)).unwrap();
    }
    house
}

#[tokio::test(flavor = "multi_thread")]
async fn articles_get_their_nearest_keyword() {
    let house = house_with_model().await;
    let keywords = [
        ["Keyword"],
        ["choking hazard"],
        [" electrical fire "],
        [""],
        ["carbon monoxide poisoning"],
        ["electrical fire"],
    ];
    house.write("scorer/NewsNexusSemanticScorerKeywords.xlsx", &xlsx::rows(&keywords));
    let tables = house.tables();
    tables.article(
        1,
        "Ignored title",
        Some("A toddler swallowed a small part of a toy and could not breathe"),
    );
    tables.article(2, "Faulty wiring set a house in flames", Some("  "));
    tables.article(3, "Local team wins", Some("Family killed by gas from a broken furnace"));
    tables.article(4, "Local team wins", None);
    tables.article(5, " ", Some(""));
    tables
        .0
        .execute_batch(
            "INSERT INTO Users (id, username, email, password, createdAt, updatedAt) VALUES (1, 'a', 'b', 'c', '', '');
             INSERT INTO ArticleApproveds (userId, articleId, textForPdfReport, createdAt, updatedAt)
               VALUES (1, 4, 'The short circuit of a charger began a blaze', '', '')",
        )
        .unwrap();
    let server = house.start().await;
    let job = server.run(SCORER, "", "completed").await;
    let result = &job["result"];
    assert_eq!(result["endingReason"], "articles_exhausted");
    assert_eq!(
        result["counts"],
        json!({"selected": 5, "succeeded": 4, "skipped": 1, "failed": 0, "notAttempted": 0})
    );
    assert_eq!(result["skipped"], json!([{"id": 5, "reason": "no_usable_text"}]));
    let rows = tables.rows("SELECT articleId, keyword, entityWhoCategorizesId FROM ArticleEntityWhoCategorizedArticleContracts ORDER BY articleId");
    let expected = [
        "1|choking hazard|11",
        "2|electrical fire|11",
        "3|carbon monoxide poisoning|11",
        "4|electrical fire|11",
    ];
    assert_eq!(rows, expected);
    let outside = "SELECT count(*) FROM ArticleEntityWhoCategorizedArticleContracts WHERE keywordRating NOT BETWEEN 0.2 AND 1";
    assert_eq!(tables.number(outside), 0);
    let completed = house.read("scorer/lastRunCompleted.txt");
    assert!(completed.starts_with("Count of Loops: 5, on 20") && completed.ends_with('Z'), "{completed}");
    assert!(!house.path("scorer/isRunningStatus.txt").exists());
    let again = server.run(SCORER, "", "completed").await;
    assert_eq!(again["result"]["counts"]["selected"], 1, "only what has no score is looked at again");
}

/// Scores and rankings that sentence-transformers computed of the same model;
/// `crates/embed/tests/reference/make.py` says how.
#[tokio::test(flavor = "multi_thread")]
async fn scores_are_those_of_an_independent_implementation() {
    let reference: Value =
        serde_json::from_str(include_str!("../../../../crates/embed/tests/reference/vectors.json")).unwrap();
    let rankings = reference["rankings"].as_array().unwrap();
    let articles = reference["articles"].as_array().unwrap();
    let house = house_with_model().await;
    let keywords: Vec<[&str; 1]> = [["Keyword"]]
        .into_iter()
        .chain(rankings.iter().map(|of| [of["keyword"].as_str().unwrap()]))
        .collect();
    house.write("scorer/NewsNexusSemanticScorerKeywords.xlsx", &xlsx::rows(&keywords));
    let tables = house.tables();
    for (id, text) in (1..).zip(articles) {
        tables.article(id, "Title", text.as_str());
    }
    let server = house.start().await;
    server.run(SCORER, "", "completed").await;
    let rows = tables.rows(
        "SELECT keyword, keywordRating FROM ArticleEntityWhoCategorizedArticleContracts ORDER BY articleId",
    );
    assert_eq!(rows.len(), articles.len());
    for (at, row) in rows.iter().enumerate() {
        let score = |of: &Value| of["scores"][at].as_f64().unwrap();
        let best = rankings.iter().max_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
        let (keyword, rating) = row.split_once('|').unwrap();
        assert_eq!(keyword, best["keyword"].as_str().unwrap(), "{}", articles[at]);
        let rating: f64 = rating.parse().unwrap();
        assert!((rating - score(best)).abs() < 2e-4, "{row} is not {}", score(best));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_it_says_what_to_put_where() {
    let house = House::new().await;
    house.tables().article(1, "Title", None);
    let server = house.start().await;
    let job = server.run(SCORER, "", "failed").await;
    let reason = job["failureReason"].as_str().unwrap();
    assert!(reason.contains("config.json") && reason.contains("model"), "{reason}");
    assert!(!reason.contains(house.folder.path().to_str().unwrap()), "{reason}");
    house.write("scorer/NewsNexusSemanticScorerKeywords.xlsx", &xlsx::rows(&[["Keyword"], [" "]]));
    let job = server.run(SCORER, "", "failed").await;
    assert!(job["failureReason"].as_str().unwrap().contains("has no keyword"), "{job}");
    house.tables().0.execute_batch("DELETE FROM EntityWhoCategorizedArticles").unwrap();
    house.write("scorer/NewsNexusSemanticScorerKeywords.xlsx", &xlsx::rows(&[["Keyword"], ["fire"]]));
    let job = server.run(SCORER, "", "failed").await;
    assert!(job["failureReason"].as_str().unwrap().contains("NewsNexusSemanticScorer02"), "{job}");
}

/// While all cores are busy the status is there at once, and a cancel is heard
/// between two batches.
#[tokio::test(flavor = "multi_thread")]
async fn status_answers_while_the_scorer_uses_all_cores() {
    let house = house_with_model().await;
    let text =
        "A long story of a fire in a house, told in many words so that the model has something to do. "
            .repeat(8);
    let tables = house.tables();
    tables.0.execute_batch("BEGIN").unwrap();
    for id in 1..=5_000 {
        tables.article(id, "Title", Some(&format!("{id} {text}")));
    }
    tables.0.execute_batch("COMMIT").unwrap();
    let server = house.start().await;
    let id = server.job(SCORER, "").await;
    let scored = "SELECT count(*) FROM ArticleEntityWhoCategorizedArticleContracts";
    eventually("some articles are scored", async || (tables.number(scored) >= 100).then_some(())).await;
    // It is written behind the scores.
    eventually("the file says how far it is", async || {
        house.read("scorer/isRunningStatus.txt").starts_with("Count of Loops: ").then_some(())
    })
    .await;
    let mut took_ms = Vec::new();
    for _ in 0..40 {
        let began = windlass_engine::world::monotonic_ns();
        assert_eq!(server.status(&id).await["status"], "running");
        took_ms.push((windlass_engine::world::monotonic_ns() - began) / 1_000_000);
    }
    took_ms.sort_unstable();
    eprintln!("status took {took_ms:?} ms");
    // Nineteen of twenty: this machine may have other work to do as well.
    assert!(took_ms[37] < 50, "status took {took_ms:?} ms");
    server.cancel(&id).await;
    let job = server.until(&id, "canceled").await;
    let counts = &job["result"]["counts"];
    assert_eq!(counts["succeeded"].as_i64().unwrap() + counts["notAttempted"].as_i64().unwrap(), 5_000);
    assert_eq!(counts["succeeded"], tables.number(scored));
    assert!(
        house.path("scorer/isRunningStatus.txt").exists()
            && !house.path("scorer/lastRunCompleted.txt").exists()
    );
}
