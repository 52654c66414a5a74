//! state-assigner: a model says where an article happened.

use serde_json::{Value, json};
use windlass_standins::{Fault, OpenAi, Reply};
use windlass_testkit::eventually::eventually;

use crate::house::{House, STATES};

const BODY: &str = r#"{"targetArticleThresholdDaysOld": 180, "targetArticleStateReviewCount": 100}"#;

fn said(state: &str) -> Reply {
    Reply::Text(json!({"occuredInTheUS": true, "reasoning": "It says so.", "state": state}).to_string())
}

fn ids(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|entry| entry["id"].as_i64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_become_rows() {
    let house = House::new().await;
    let tables = house.tables();
    for id in 1..=6 {
        tables.article(id, &format!("Title {id} {{articleContent}} $&"), Some(&format!("About {id}")));
    }
    tables.0.execute_batch("INSERT INTO ArticleContents (articleId, content, createdAt, updatedAt) VALUES (6, 'All of it', '', '')").unwrap();
    tables.article(7, " ", None);
    let fenced = "```json\n{\"occuredInTheUS\": true, \"reasoning\": \"Albany\", \"state\": \"NY\"}\n```";
    for reply in [
        said("Texas"),
        Reply::Text(fenced.to_owned()),
        said("Atlantis"),
        Reply::Text("{\"occuredInTheUS\": false, \"reasoning\": \"Paris\"}".to_owned()),
        Reply::Text("I cannot say.".to_owned()),
        Reply::Refusal("no".to_owned()),
    ] {
        house.openai.reply(reply);
    }
    let server = house.start().await;
    let job = server.run(STATES, BODY, "completed").await;
    let result = &job["result"];
    assert_eq!(result["endingReason"], "articles_exhausted");
    assert_eq!(
        result["counts"],
        json!({"selected": 7, "succeeded": 4, "skipped": 1, "failed": 2, "notAttempted": 0})
    );
    assert_eq!(result["skipped"], json!([{"id": 7, "reason": "no_usable_content"}]));
    assert_eq!(
        result["failed"],
        json!([{"id": 2, "reason": "analysis_error"}, {"id": 1, "reason": "refusal"}])
    );
    let rows = tables.rows(
        "SELECT articleId, stateId, entityWhoCategorizesId, promptId, isHumanApproved, isDeterminedToBeError,
         occuredInTheUS, reasoning FROM ArticleStateContracts02 ORDER BY id",
    );
    let expected = [
        "6|1|12|2|0|0|1|It says so.",
        "5|2|12|2|0|0|1|Albany",
        "4|null|12|2|0|0|1|It says so.",
        "3|null|12|2|0|0|0|Paris",
    ];
    assert_eq!(rows, expected, "newest first; unknown states and other countries have none");
    let asked: Value = serde_json::from_slice(&house.openai.asked()[0].body).unwrap();
    let text = "Where? Title: Title 6 {articleContent} $& Content: All of it";
    let expected =
        json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}], "temperature": 0.3});
    assert_eq!(asked, expected);
    let mut files: Vec<String> = std::fs::read_dir(house.path("responses"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files.len(), 5, "also the one that could not be read: {files:?}");
    assert!(files[0].starts_with("response-2-20") && files[0].ends_with("Z.json") && !files[0].contains(':'));
    assert_eq!(house.read(&format!("responses/{}", files[0])), "I cannot say.");
    assert!(house.read(&format!("responses/{}", files[3])).starts_with("```json"));
    let log = house.read("logs/WorkerNode.log");
    assert!(!log.contains("Albany") && !log.contains(&house.openai.key()) && !log.contains("canary"));
}

#[tokio::test(flavor = "multi_thread")]
async fn which_articles_are_asked_about() {
    let house = House::new().await;
    let tables = house.tables();
    for id in 1..=8 {
        tables.article(id, &format!("Title {id}"), None);
    }
    tables
        .0
        .execute_batch(
            "UPDATE Articles SET publishedDate = date('now', '-400 days') WHERE id = 8;
             UPDATE Articles SET publishedDate = NULL WHERE id = 7;
             INSERT INTO Users (id, username, email, password, createdAt, updatedAt) VALUES (1, 'a', 'b', 'c', '', '');
             INSERT INTO ArticleStateContracts (articleId, stateId, createdAt, updatedAt) VALUES (6, 1, '', '');
             INSERT INTO ArticleStateContracts02 (articleId, entityWhoCategorizesId, promptId, isDeterminedToBeError, createdAt, updatedAt)
               VALUES (5, 12, 1, 1, '', '');
             INSERT INTO ArticleIsRelevants (userId, articleId, isRelevant, createdAt, updatedAt) VALUES (1, 4, 0, '', '');",
        )
        .unwrap();
    for _ in 0..2 {
        house.openai.reply(said("TX"));
    }
    let server = house.start().await;
    let job = server.run(STATES, &BODY.replace("100", "2"), "completed").await;
    assert_eq!(job["result"]["counts"]["succeeded"], 2);
    let rows = tables.rows("SELECT articleId FROM ArticleStateContracts02 WHERE promptId = 2 ORDER BY id");
    assert_eq!(rows, ["3", "2"], "the limit counts what is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_or_an_empty_account_ends_the_job() {
    for (answer, reason, word) in [
        (OpenAi::error(401, "invalid_request_error", Some("invalid_api_key")), "key_refused", "key"),
        (OpenAi::error(429, "insufficient_quota", Some("insufficient_quota")), "insufficient_quota", "quota"),
    ] {
        let house = House::new().await;
        for id in 1..=4 {
            house.tables().article(id, "Title", None);
        }
        house.openai.reply(said("TX"));
        house.openai.faults.push_ok();
        house.openai.faults.push(Fault::Answer(answer));
        let server = house.start().await;
        let job = server.run(STATES, BODY, "failed").await;
        let result = &job["result"];
        assert_eq!(result["endingReason"], reason);
        assert_eq!(
            result["counts"],
            json!({"selected": 4, "succeeded": 1, "skipped": 0, "failed": 1, "notAttempted": 2})
        );
        assert_eq!((ids(&result["failed"]), ids(&result["notAttempted"])), (vec![3], vec![2, 1]));
        assert_eq!(house.openai.asked().len(), 2, "no further request is wasted");
        let text = job["failureReason"].as_str().unwrap();
        assert!(text.contains(word) && !text.contains("canary"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_failures_in_a_row_end_the_job() {
    let house = House::new().await;
    for id in 1..=12 {
        house.tables().article(id, "Title", None);
    }
    for _ in 0..4 {
        house.openai.faults.push(Fault::Status(500, None));
    }
    for _ in 0..5 {
        // A reply is used up by a request that fails, too.
        house.openai.reply(said("TX"));
    }
    house.openai.faults.push_ok();
    house.openai.faults.always(Fault::Status(429, Some("7")));
    let server = house.start().await;
    let job = server.run(STATES, BODY, "failed").await;
    let result = &job["result"];
    assert_eq!(result["endingReason"], "circuit_breaker");
    assert_eq!(
        result["counts"],
        json!({"selected": 12, "succeeded": 1, "skipped": 0, "failed": 9, "notAttempted": 2})
    );
    assert_eq!(ids(&result["notAttempted"]), [2, 1]);
    assert!(job["failureReason"].as_str().unwrap().starts_with("circuit_breaker"), "{job}");
}

/// Other programs write at the same time: an article may be gone when its answer comes.
#[tokio::test(flavor = "multi_thread")]
async fn an_article_that_is_deleted_meanwhile_is_skipped() {
    let house = House::new().await;
    let tables = house.tables();
    tables.article(1, "Title", None);
    tables.article(2, "Title", None);
    house.openai.faults.push(Fault::HoldHead);
    house.openai.reply(said("TX"));
    house.openai.reply(said("TX"));
    let server = house.start().await;
    let id = server.job(STATES, BODY).await;
    eventually("OpenAI is asked", async || (!house.openai.asked().is_empty()).then_some(())).await;
    tables.0.execute_batch("DELETE FROM Articles WHERE id = 2").unwrap();
    house.openai.faults.release();
    let job = server.until(&id, "completed").await;
    assert_eq!(job["result"]["skipped"], json!([{"id": 2, "reason": "article_gone"}]));
    assert_eq!(tables.rows("SELECT articleId FROM ArticleStateContracts02"), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_answer_is_skipped_after_ten_seconds() {
    let house = House::new().await;
    house.tables().article(1, "Title", None);
    house.tables().article(2, "Title", None);
    house.openai.faults.push(Fault::HoldBody { after: 5 });
    house.openai.reply(said("TX"));
    house.openai.reply(said("TX"));
    let server = house.start().await;
    let job = server.run(STATES, BODY, "completed").await;
    assert_eq!(job["result"]["failed"], json!([{"id": 2, "reason": "timeout"}]));
    assert_eq!(job["result"]["counts"]["succeeded"], 1);
}

/// Models write states as they please.
#[tokio::test(flavor = "multi_thread")]
async fn states_are_found_by_any_case() {
    let house = House::new().await;
    let tables = house.tables();
    let names = ["texas", "NEW YORK", "tx", " new  york ", "Ny"];
    for (id, name) in (1..).zip(names) {
        tables.article(id, "Fire", Some("x"));
        house.openai.reply(said(name));
    }
    let server = house.start().await;
    server.run(STATES, BODY, "completed").await;
    let rows = tables.rows(
        "SELECT count(*), s.name FROM ArticleStateContracts02 a LEFT JOIN States s ON s.id = a.stateId GROUP BY s.name",
    );
    assert_eq!(rows, ["3|New York", "2|Texas"]);
}
