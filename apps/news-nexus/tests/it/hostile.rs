//! Workbooks, feeds and answers that were made to do harm.

use std::time::Duration;

use serde_json::json;
use windlass_standins::{Answer, Fault, FeedItem, Reply, feed, xlsx};

use crate::house::{House, RSS, SCORER, STATES};

/// Fault 59: a workbook of a kilobyte that names a cell far away, and one that
/// unpacks to more than there is room for.
#[tokio::test(flavor = "multi_thread")]
async fn fault_59_a_workbook_bomb_fails_its_job_alone() {
    let house = House::new().await;
    let server = house.start().await;
    let far = "<row r=\"1\"><c r=\"A1\"><v>1</v></c></row><row r=\"1048576\"><c r=\"XFD1048576\"><v>2</v></c></row>";
    let below = "<row r=\"2000000\"><c r=\"A2000000\"><v>1</v></c></row>".to_owned();
    let zeros = format!("<row r=\"1\"><c r=\"A1\"><v>{}</v></c></row>", "0".repeat(70_000_000));
    for (sheet, word) in [(far.to_owned(), "no column"), (below, "more than"), (zeros, "more than")] {
        house.write("queries.xlsx", &xlsx::from_xml(&sheet, None));
        house.write("scorer/NewsNexusSemanticScorerKeywords.xlsx", &xlsx::from_xml(&sheet, None));
        let job = server.run(RSS, "", "failed").await;
        assert!(job["failureReason"].as_str().unwrap().contains(word), "{job}");
        let job = server.run(SCORER, "", "failed").await;
        assert!(
            job["failureReason"].as_str().unwrap().contains("NewsNexusSemanticScorerKeywords.xlsx"),
            "{job}"
        );
    }
    house.searches(&[["1", "fire", "", "", "", ""]]);
    server.run(RSS, "", "completed").await;
}

/// Fault 60: HTML that is nested a hundred thousand times, in a description.
#[tokio::test(flavor = "multi_thread")]
async fn fault_60_a_nested_description_costs_nothing() {
    let house = House::new().await;
    let mut bomb = FeedItem::made_up("fire", 0);
    bomb.description = "<div>".repeat(100_000);
    let mut script = FeedItem::made_up("fire", 1);
    script.link = "javascript:alert(1)".to_owned();
    script.title = "a\u{1b}[31m\n2026-01-01 00:00:00 [ERROR] forged".to_owned();
    let honest = FeedItem::made_up("fire", 2);
    let answer = Answer::new(200, "application/xml", feed("x", &[bomb, script, honest]));
    house.google.faults.push(Fault::Answer(answer));
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    assert_eq!(
        (&job["result"]["articlesReceivedCount"], &job["result"]["articlesAddedCount"]),
        (&json!(3), &json!(2))
    );
    let rows = house.tables().rows("SELECT url, description FROM Articles ORDER BY id");
    assert_eq!(rows[0], "https://news.example/articles/fire-0|null");
    assert!(rows[1].starts_with("https://news.example/articles/fire-2|"));
    let log = house.read("logs/WorkerNode.log");
    assert!(!log.contains("forged") && !log.contains('\u{1b}'));
}

/// An answer that is packed, and cut off or damaged on its way, fails its row or its article for now: the next job has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_packed_answer_that_is_broken_is_had_again() {
    // A packed text of five letters, whose sum is not its own.
    let damaged: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x05\0\xfa\xffhello\xde\xad\xbe\xef\x05\0\0\0";
    for broken in [&damaged[..17], &damaged[..22], damaged] {
        let house = House::new().await;
        house.tables().article(1, "Fire", Some("In Texas"));
        let said = r#"{"occuredInTheUS": true, "reasoning": "It says so.", "state": "Texas"}"#;
        for _ in 0..12 {
            house.openai.reply(Reply::Text(said.to_owned()));
        }
        let answer =
            |kind| Fault::Answer(Answer::new(200, kind, broken.to_vec()).with("content-encoding", "gzip"));
        house.google.faults.push(answer("application/xml"));
        house.openai.faults.push(answer("application/json"));
        let server = house.start().await;
        let body = r#"{"targetArticleThresholdDaysOld": 180, "targetArticleStateReviewCount": 10}"#;
        let job = server.run(STATES, body, "completed").await;
        assert_eq!(job["result"]["counts"]["failed"], 1, "{job}");
        let job = server.run(STATES, body, "completed").await;
        assert_eq!(job["result"]["counts"]["succeeded"], 1, "{job}");
        let job = server.run(RSS, "", "completed").await;
        assert_eq!(job["result"]["failed"][0]["reason"], "broken_body", "{job}");
        let job = server.run(RSS, "", "completed").await;
        assert_eq!(job["result"]["counts"]["succeeded"], 1, "{job}");
    }
}

/// Faults 61 to 63: each of these feeds is skipped, and the next row runs.
#[tokio::test(flavor = "multi_thread")]
async fn fault_61_62_63_hostile_feeds_are_skipped() {
    let house = House::new().await;
    let secret = house.openai.url();
    let cases: Vec<(Fault, &str)> = vec![
        (Fault::GzipBomb(100_000_000), "too_large"),
        (Fault::Huge(50_000_000), "too_large"),
        (Fault::Garbage, "not_a_feed"),
        (Fault::CutBody { after: 100 }, "cut"),
        (Fault::CutHead, "cut"),
        (Fault::Trickle { every: Duration::from_millis(100) }, "timeout"),
        (Fault::Redirect(302, secret), "refused"),
        (Fault::Redirect(302, "http://169.254.169.254/latest/meta-data".to_owned()), "refused"),
        (Fault::Redirect(302, "http://2130706433/".to_owned()), "refused"),
        (Fault::Redirect(302, "file:///etc/passwd".to_owned()), "refused"),
    ];
    let rows: Vec<String> = (0..=cases.len()).map(|number| (number + 1).to_string()).collect();
    let searches: Vec<[&str; 6]> = rows.iter().map(|id| [id.as_str(), id.as_str(), "", "", "", ""]).collect();
    house.searches(&searches);
    for (fault, _) in &cases {
        house.google.faults.push(fault.clone());
    }
    let server = house.start().await;
    let id = server.job(RSS, "").await;
    let job = server.until(&id, "completed").await;
    let failed: Vec<(u64, &str)> = job["result"]["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["id"].as_u64().unwrap(), entry["reason"].as_str().unwrap()))
        .collect();
    let expected: Vec<(u64, &str)> = cases.iter().zip(1..).map(|((_, reason), id)| (id, *reason)).collect();
    assert_eq!(failed, expected);
    assert_eq!(job["result"]["counts"]["succeeded"], 1, "the honest row after them was asked");
    assert!(house.openai.asked().is_empty(), "nothing inside was reached");
}

/// Fault 62: a feed that redirects without end.
#[tokio::test(flavor = "multi_thread")]
async fn fault_62_endless_redirects_are_skipped() {
    let house = House::new().await;
    house.google.faults.always(Fault::RedirectLoop);
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    assert_eq!(job["result"]["failed"][0]["reason"], "too_many_redirects");
    assert!(house.google.asked().len() <= 7);
}
