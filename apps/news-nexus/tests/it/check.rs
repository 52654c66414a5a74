//! `windlass news-nexus check`: what is in order and what is not, and nothing is changed.

use serde_json::Value;

use crate::house::House;

fn check(house: &House, args: &[&str]) -> (Option<i32>, String) {
    let output = house.command().arg("check").args(args).output().expect("the program starts");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_in_order_is_said_with_what_to_do() {
    let house = House::new().await;
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        house.write(&format!("scorer/model/{name}"), b"{}");
    }
    let (code, said) = check(&house, &[]);
    assert!(code == Some(0) && said.ends_with("everything is in order\n") && !said.contains('✗'), "{said}");
    std::fs::remove_file(house.path("queries.xlsx")).unwrap();
    std::fs::remove_file(house.path("db/news.db")).unwrap();
    let (code, said) = check(&house, &[]);
    assert_eq!(code, Some(1), "{said}");
    for words in
        ["✓ the settings\n", "✗ the workbook with the searches: queries.xlsx", "2 things are not in order"]
    {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    assert!(!house.path("db/news.db").exists() && !house.path("logs").exists(), "looking changes nothing");
    let (code, said) = check(&house, &["--json"]);
    let found: Vec<Value> = serde_json::from_str(&said).unwrap();
    let wrong = found.iter().filter(|finding| finding["to_do"].is_string()).count();
    assert_eq!((code, wrong), (Some(1), 2), "{said}");
    house.write(
        "db/news.db",
        b"this is no database at all, but long enough to be taken for one by its size alone",
    );
    assert!(check(&house, &[]).1.contains("is a SQLite database"));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_missing_are_named() {
    let house = House::new().await.with("KEY_OPEN_AI", "").with("PORT", "canary");
    let (code, said) = check(&house, &[]);
    assert!(code == Some(1) && said.contains("KEY_OPEN_AI") && said.contains("PORT must be"), "{said}");
    assert!(!said.contains("canary"), "{said}");
}
