//! From nothing to a running server.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::house::{House, RSS, STATES};

/// Runs `windlass news-nexus init` in a folder, with nothing in its environment.
fn init(house: &House, folder: &str) -> Output {
    let mut command = Command::new(windlass_testkit::binary::windlass());
    let output =
        command.args(["news-nexus", "init", folder]).current_dir(house.folder.path()).env_clear().output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_operator_needs_a_key_and_nothing_else() {
    let mut house = House::new().await;
    let first = said(&init(&house, "new"));
    for word in [
        "made   new/.env",
        "new/semantic-scorer/model",
        "sentence-transformers/paraphrase-MiniLM-L6-v2",
        "KEY_OPEN_AI",
    ] {
        assert!(first.contains(word), "{word} is not in {first}");
    }
    let mode = std::fs::metadata(house.path("new/.env")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a key will be in it");
    let second = said(&init(&house, "new"));
    assert!(second.contains("kept   new/.env") && !second.contains("made"), "{second}");

    // Only what stands for the outside, and the key, are given beside what init has made.
    let keep = ["GOOGLE_RSS_URL", "OPENAI_BASE_URL", "PORT", "MILISECONDS_IN_BETWEEN_REQUESTS"];
    let key = house.openai.key();
    house.env.retain(|name, _| keep.contains(name));
    let mut without_key = house.command();
    let refused = without_key.current_dir(house.path("new")).output().unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(errors.contains("KEY_OPEN_AI") && !errors.contains("NAME_DB"), "{errors}");
    let env = house.read("new/.env").replace("KEY_OPEN_AI=", &format!("KEY_OPEN_AI={key}"));
    house.write("new/.env", env.as_bytes());
    let server = house.start_in("new").await;
    let found = server.run(RSS, "", "completed").await;
    assert_eq!(
        (found["result"]["counts"]["succeeded"].as_u64(), found["result"]["articlesAddedCount"].as_u64()),
        (Some(2), Some(10))
    );
    let body = r#"{"targetArticleThresholdDaysOld": 36500, "targetArticleStateReviewCount": 2}"#;
    for _ in 0..2 {
        let said = r#"{"occuredInTheUS": true, "reasoning": "It says so.", "state": "texas"}"#;
        house.openai.reply(windlass_standins::Reply::Text(said.to_owned()));
    }
    let states = server.run(STATES, body, "completed").await;
    assert_eq!(states["result"]["counts"]["selected"], 2, "{states}");
    assert!(server.stop().success());
}

/// What somebody has is theirs: init fills in what is missing, at the places that the settings name.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_kept() {
    let house = House::new().await;
    let lines: Vec<String> = house.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    house.write(".env", lines.join("\n").as_bytes());
    let (workbook, env) = (std::fs::read(house.path("queries.xlsx")).unwrap(), house.read(".env"));
    std::fs::remove_file(house.path("scorer/NewsNexusSemanticScorerKeywords.xlsx")).unwrap();
    house
        .tables()
        .0
        .execute_batch("DELETE FROM EntityWhoCategorizedArticles WHERE artificialIntelligenceId = 2")
        .unwrap();
    let text = said(&init(&house, "."));
    assert!(
        text.contains("NewsNexusLlmStateAssigner01") && !text.contains("NewsNexusSemanticScorer02,"),
        "{text}"
    );
    assert_eq!((std::fs::read(house.path("queries.xlsx")).unwrap(), house.read(".env")), (workbook, env));
    assert!(house.path("scorer/NewsNexusSemanticScorerKeywords.xlsx").exists());
    let tables = house.tables();
    assert_eq!(tables.rows("SELECT name FROM States ORDER BY id"), ["Texas", "New York"]);
    assert_eq!(tables.number("SELECT count(*) FROM Prompts"), 2);
    assert_eq!(tables.number("SELECT count(*) FROM ArtificialIntelligences"), 2);
    assert_eq!(tables.number("SELECT count(*) FROM EntityWhoCategorizedArticles"), 2);
}

/// The unit as it is: its command, in its folder; it comes back whatever happens.
#[tokio::test(flavor = "multi_thread")]
async fn the_service_file_starts_the_server() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/news-nexus/deploy/news-nexus.service");
    let unit = std::fs::read_to_string(path).unwrap();
    let value =
        |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key}"));
    assert_eq!(value("ExecStart=/usr/local/bin/"), "windlass news-nexus");
    assert_eq!(
        (value("Restart="), value("StartLimitIntervalSec="), value("KillMode=")),
        ("always", "0", "mixed")
    );
    assert!(value("RestartSec=").parse::<u32>().unwrap() > 0);
    assert!(value("TimeoutStopSec=").parse::<u32>().unwrap() > 13, "longer than a job is given");
    assert_eq!(value("ReadWritePaths="), value("WorkingDirectory="));
}
