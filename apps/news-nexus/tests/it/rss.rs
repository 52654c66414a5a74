//! request-google-rss: a workbook of searches becomes articles.

use serde_json::json;
use windlass_standins::{Answer, Fault, xlsx};
use windlass_testkit::eventually::eventually;

use crate::house::{HEAD, House, RSS, kill};

#[tokio::test(flavor = "multi_thread")]
async fn rows_become_articles() {
    let house = House::new().await;
    house.searches(&[
        ["7", "fire", "burn injury", "house, flat", "", "30d"],
        ["8", "", "", "smoke", "", "soon"],
    ]);
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    let result = &job["result"];
    assert_eq!(result["endingReason"], "queries_exhausted");
    assert_eq!(
        result["counts"],
        json!({"selected": 2, "succeeded": 2, "skipped": 0, "failed": 0, "notAttempted": 0})
    );
    assert_eq!((&result["articlesReceivedCount"], &result["articlesAddedCount"]), (&json!(10), &json!(10)));
    let asked = house.google.asked();
    assert_eq!(asked[0].param("q").unwrap(), "fire \"burn injury\" (house OR flat) when:30d");
    assert_eq!(asked[0].header("user-agent"), Some("NewsNexusRequesterGoogleRss04/1.0"));
    assert_eq!(asked[1].query, "q=smoke+when%3A180d&hl=en-US&gl=US&ceid=US%3Aen");
    let tables = house.tables();
    assert_eq!(
        tables.rows("SELECT nameOfOrg, isRss, isApi FROM NewsArticleAggregatorSources"),
        ["Google News RSS|1|0"]
    );
    let requests = tables.rows(
        "SELECT newsArticleAggregatorSourceId, countOfArticlesReceivedFromRequest, countOfArticlesSavedToDbFromRequest,
         countOfArticlesAvailableFromRequest, dateStartOfRequest, dateEndOfRequest = date(createdAt), status, andString,
         orString, notString, isFromAutomation FROM NewsApiRequests ORDER BY id",
    );
    assert_eq!(
        requests,
        [
            "1|5|5|null|null|1|success|fire, burn injury|house, flat|null|1",
            "1|5|5|null|null|1|success|null|smoke|null|1"
        ]
    );
    let url = tables.rows("SELECT url FROM NewsApiRequests WHERE id = 2").remove(0);
    assert_eq!(url, format!("{}?{}", house.google.url(), asked[1].query));
    let article = tables.rows(
        "SELECT publicationName, title, description, url, publishedDate, entityWhoFoundArticleId, newsApiRequestId, author
         FROM Articles WHERE newsApiRequestId = 2 ORDER BY id LIMIT 1",
    );
    let expected =
        "Paper 0|smoke: report 0|smoke: report 0|https://news.example/articles/smoke-0|2025-09-01|1|2|null";
    assert_eq!(article, [expected]);
    let moments =
        tables.rows("SELECT DISTINCT createdAt = updatedAt, createdAt FROM Articles LIMIT 1").remove(0);
    assert!(moments.starts_with("1|20") && moments.ends_with(" +00:00") && moments.len() == 32, "{moments}");

    let again = server.run(RSS, "", "completed").await;
    assert_eq!(again["result"]["articlesAddedCount"], 0, "an address is kept once");
    assert_eq!(tables.number("SELECT count(*) FROM Articles"), 10);
    assert_eq!(tables.number("SELECT sum(countOfArticlesSavedToDbFromRequest) FROM NewsApiRequests"), 10);
    assert_eq!(tables.number("SELECT count(*) FROM NewsArticleAggregatorSources"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn formulas_and_rich_text_give_their_text() {
    let house = House::new().await;
    let head: String = HEAD
        .iter()
        .zip('A'..)
        .map(|(name, column)| {
            format!("<c r=\"{column}1\" t=\"inlineStr\"><is><t> {} </t></is></c>", name.to_uppercase())
        })
        .collect();
    let row = "<c r=\"A2\"><v>12</v></c><c r=\"B2\" t=\"str\"><f>LOWER(\"FIRE\")</f><v>fire</v></c>\
        <c r=\"C2\" t=\"inlineStr\"><is><r><t>smoke </t></r><r><rPr><b/></rPr><t>alarm</t></r></is></c>\
        <c r=\"F2\" t=\"str\"><f>7&amp;\"d\"</f><v>7d</v></c>";
    let sheet = format!("<row r=\"1\">{head}</row><row r=\"2\">{row}</row>");
    house.write("queries.xlsx", &xlsx::from_xml(&sheet, None));
    let server = house.start().await;
    server.run(RSS, "", "completed").await;
    assert_eq!(house.google.asked()[0].param("q").unwrap(), "fire \"smoke alarm\" when:7d");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_terms_or_ids() {
    let house = House::new().await;
    house.searches(&[["1", "", " , ", "", "", "7d"], ["", "", "", "", "", ""], ["", "fire", "", "", "", ""]]);
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    let result = &job["result"];
    assert_eq!(
        result["counts"],
        json!({"selected": 2, "succeeded": 1, "skipped": 1, "failed": 0, "notAttempted": 0})
    );
    assert_eq!(result["skipped"], json!([{"id": 1, "row": 2, "reason": "empty_query"}]));
    assert_eq!(house.google.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workbook_that_does_not_fit() {
    let house = House::new().await;
    let server = house.start().await;
    house.write("queries.xlsx", &xlsx::rows(&[["id", "and_keywords", "or_keywords", "time_range"]]));
    let job = server.run(RSS, "", "failed").await;
    let reason = job["failureReason"].as_str().unwrap();
    assert!(reason.contains("and_exact_phrases, or_exact_phrases"), "{reason}");
    house.write("queries.xlsx", b"this is no workbook");
    let job = server.run(RSS, "", "failed").await;
    assert!(job["failureReason"].as_str().unwrap().contains("not a workbook"), "{job}");
    house.searches(&[["1", "fire", "", "", "", ""]]);
    let job = server.run(RSS, r#"{"startAfterRowId": 99}"#, "failed").await;
    assert!(job["failureReason"].as_str().unwrap().contains("id 99"), "{job}");
    assert!(house.google.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_feed_is_skipped_after_ten_seconds() {
    let house = House::new().await;
    house.searches(&[["1", "fire", "", "", "", ""], ["2", "smoke", "", "", "", ""]]);
    house.google.faults.push(Fault::HoldBody { after: 100 });
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    assert_eq!(job["result"]["failed"], json!([{"id": 1, "row": 2, "reason": "timeout"}]));
    assert_eq!(job["result"]["counts"]["succeeded"], 1);
    let ms = |field: &str| job[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert!((10_000..18_000).contains(&(ms("endedAt") - ms("startedAt"))), "{job}");
    let rows = house.tables().rows(
        "SELECT status, countOfArticlesReceivedFromRequest, countOfArticlesSavedToDbFromRequest FROM NewsApiRequests",
    );
    assert_eq!(rows, ["error|0|0", "success|5|5"]);
    let log = house.read("logs/WorkerNode.log");
    assert!(log.contains("[WARN] Request failed; the next row follows rowId=1 code=timeout"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_success_counts_as_done() {
    let house = House::new().await;
    house.google.faults.push(Fault::Status(500, None));
    let server = house.start().await;
    let window = r#"{"doNotRepeatRequestsWithinHours": 72}"#;
    let failed = server.run(RSS, window, "completed").await;
    assert_eq!(failed["result"]["counts"]["failed"], 1);
    let done = server.run(RSS, window, "completed").await;
    assert_eq!(done["result"]["counts"]["succeeded"], 1, "a request that failed was not done");
    let skipped = server.run(RSS, window, "completed").await;
    assert_eq!(skipped["result"]["skipped"], json!([{"id": 1, "row": 2, "reason": "repeat_window"}]));
    let never = server.run(RSS, "", "completed").await;
    assert_eq!(never["result"]["counts"]["succeeded"], 1, "0 is never skip, and the default");
    let tables = house.tables();
    tables
        .0
        .execute_batch("UPDATE NewsApiRequests SET createdAt = '2020-01-01 00:00:00.000 +00:00'")
        .unwrap();
    let old = server.run(RSS, window, "completed").await;
    assert_eq!(old["result"]["counts"]["succeeded"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_ends_the_run_and_it_can_be_resumed() {
    for status in [429, 503] {
        let house = House::new().await;
        house.searches(&[
            ["1", "fire", "", "", "", ""],
            ["2", "smoke", "", "", "", ""],
            ["3", "heat", "", "", "", ""],
        ]);
        house.google.faults.push_ok();
        house.google.faults.push(Fault::Status(status, None));
        let server = house.start().await;
        let job = server.run(RSS, "", "completed").await;
        let result = &job["result"];
        assert_eq!(result["endingReason"], "rate_limited");
        assert_eq!(
            result["counts"],
            json!({"selected": 3, "succeeded": 1, "skipped": 0, "failed": 0, "notAttempted": 2})
        );
        assert_eq!(result["notAttempted"], json!([{"id": 2, "row": 3}, {"id": 3, "row": 4}]));
        assert_eq!(house.google.asked().len(), 2);
        assert_eq!(house.tables().number("SELECT count(*) FROM NewsApiRequests"), 1);
        house.google.forget();
        let body = json!({"startAfterRowId": result["startAfterRowId"]}).to_string();
        let job = server.run(RSS, &body, "completed").await;
        assert_eq!(job["result"]["skipped"], json!([{"id": 1, "row": 2, "reason": "resume_before_marker"}]));
        let asked: Vec<String> = house.google.asked().iter().map(|ask| ask.param("q").unwrap()).collect();
        assert_eq!(asked, ["smoke when:180d", "heat when:180d"]);
    }
}

/// Other programs write to the same database: the job waits for its turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_database_is_waited_for() {
    let house = House::new().await;
    let tables = house.tables();
    let server = house.start().await;
    server.run(RSS, "", "completed").await;
    tables.0.execute_batch("BEGIN IMMEDIATE; INSERT INTO States (name, abbreviation, createdAt, updatedAt) VALUES ('Ohio', 'OH', '', '')").unwrap();
    house.searches(&[["1", "smoke", "", "", "", ""]]);
    let id = server.job(RSS, "").await;
    server.until(&id, "running").await;
    server.job_process().await;
    tables.0.execute_batch("COMMIT").unwrap();
    let job = server.until(&id, "completed").await;
    assert_eq!(job["result"]["articlesAddedCount"], 5);
}

/// A job that is killed while it writes has written all of a row or nothing,
/// and the queue goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_job_leaves_nothing_half_written() {
    let house = House::new().await;
    house.google.faults.push(Fault::HoldHead);
    let tables = house.tables();
    let server = house.start().await;
    let id = server.job(RSS, "").await;
    eventually("Google is asked", async || (!house.google.asked().is_empty()).then_some(())).await;
    tables.0.execute_batch("BEGIN IMMEDIATE").unwrap();
    house.google.faults.release();
    kill(server.job_process().await, libc::SIGKILL);
    let job = server.until(&id, "failed").await;
    let reason = job["failureReason"].as_str().unwrap();
    assert!(reason.starts_with("job_failed") && reason.contains("SIGKILL"), "{reason}");
    assert!(job.get("result").is_none());
    tables.0.execute_batch("COMMIT").unwrap();
    assert_eq!(
        tables.number("SELECT count(*) FROM NewsApiRequests")
            + tables.number("SELECT count(*) FROM Articles"),
        0
    );
    let next = server.run(RSS, "", "completed").await;
    assert_eq!(next["result"]["articlesAddedCount"], 5);
    let unsaved = "SELECT count(*) FROM NewsApiRequests WHERE countOfArticlesSavedToDbFromRequest IS NULL";
    assert_eq!(tables.number(unsaved), 0);
}

/// Feeds as papers write them: other encodings, other dates, long links.
#[tokio::test(flavor = "multi_thread")]
async fn feeds_of_every_kind_become_whole_articles() {
    let house = House::new().await;
    house.searches(&[["1", "a", "", "", "", ""], ["2", "b", "", "", "", ""]]);
    let long = format!("https://news.example/{}", "x".repeat(5_000));
    let item = |title: &[u8], link: &str| {
        let head = b"<item><title>".to_vec();
        let rest = format!("</title><link>{link}</link><pubDate>2025-09-02T08:30:00+02:00</pubDate></item>");
        [&head, title, rest.as_bytes()].concat()
    };
    let feed = |declaration: &[u8], item: &[u8]| {
        [declaration, b"<rss><channel>", item, b"</channel></rss>"].concat()
    };
    let latin = feed(b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>", &item(b"Caf\xe9 fire", &long));
    house.google.faults.push(Fault::Answer(Answer::new(200, "application/xml", latin)));
    let windows = feed(b"", &item(b"\x93Gr\xfc\xdfe\x94", "https://news.example/2"));
    house.google.faults.push(Fault::Answer(Answer::new(200, "text/xml; charset=windows-1252", windows)));
    let server = house.start().await;
    server.run(RSS, "", "completed").await;
    let rows = house.tables().rows("SELECT title, publishedDate, url FROM Articles ORDER BY id");
    assert_eq!(
        rows,
        [format!("Café fire|2025-09-02|{long}"), "“Grüße”|2025-09-02|https://news.example/2".to_owned()]
    );
}

/// A workbook of a program that does not calculate: the row is an error, not a shorter question.
#[tokio::test(flavor = "multi_thread")]
async fn a_formula_without_a_value_fails_its_row_alone() {
    let house = House::new().await;
    let text = |cell: &str, text: &str| format!("<c r=\"{cell}\" t=\"inlineStr\"><is><t>{text}</t></is></c>");
    let head: String =
        ("ABCDEF".chars()).zip(crate::house::HEAD).map(|(at, name)| text(&format!("{at}1"), name)).collect();
    let sheet = format!(
        "<row r=\"1\">{head}</row><row r=\"2\"><c r=\"A2\"><v>1</v></c>{}<c r=\"C2\"><f>Z1</f></c></row>\
         <row r=\"3\"><c r=\"A3\"><v>2</v></c>{}<c r=\"C3\" t=\"e\"><f>NA()</f><v>#N/A</v></c></row>\
         <row r=\"4\"><c r=\"A4\"><v>3</v></c>{}</row>",
        text("B2", "fire"),
        text("B3", "fire"),
        text("B4", "flood"),
    );
    house.write("queries.xlsx", &xlsx::from_xml(&sheet, None));
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    let failed = json!([
        {"id": 1, "row": 2, "reason": "formula_without_value"},
        {"id": 2, "row": 3, "reason": "formula_error"},
    ]);
    assert_eq!((&job["result"]["failed"], &job["result"]["counts"]["succeeded"]), (&failed, &json!(1)));
    let asked = house.google.asked();
    assert_eq!((asked.len(), asked[0].param("q").as_deref()), (1, Some("flood when:180d")));
    assert!(house.read("logs/WorkerNode.log").contains("and_exact_phrases"));
}

/// The file belongs to somebody else, and so does the way in which it is written.
#[tokio::test(flavor = "multi_thread")]
async fn the_journal_mode_of_the_database_stays() {
    let house = House::new().await;
    let server = house.start().await;
    server.run(RSS, "", "completed").await;
    assert_eq!(house.tables().rows("PRAGMA journal_mode"), ["delete"]);
    house.tables().rows("PRAGMA journal_mode = WAL");
    server.run(RSS, "", "completed").await;
    assert_eq!(house.tables().rows("PRAGMA journal_mode"), ["wal"]);
}
