//! `windlass.enqueue` and core accept the same, and keep the same: generated texts go both ways.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use uuid::Uuid;
use windlass_core::id::JobId;
use windlass_core::job::{Job, JobSpec};
use windlass_core::json::Json;
use windlass_core::policy::ladder::RetryRule;
use windlass_core::store::Store;

use crate::scene::Scene;

const CASES: usize = 400;

/// Numbers as people and programs write them, near the bounds of 64 bits and of a double.
fn number() -> impl Strategy<Value = String> {
    let odd = [
        "0",
        "-0",
        "01",
        "1.",
        ".5",
        "+1",
        "1e19",
        "1E+2",
        "1e2",
        "-1.50",
        "1e-400",
        "1e400",
        "-1e309",
        "0e999999",
        "1e99999999999",
        "1e-99999999999",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "0.1e310",
        "1000e306",
        "NaN",
        "9223372036854775808.0",
        "18446744073709551615",
    ];
    let long = (300_usize..330, 0_usize..3).prop_map(|(digits, form)| match form {
        0 => "9".repeat(digits),
        1 => format!("{}.5", "9".repeat(digits)),
        _ => format!("0.{}1", "0".repeat(digits)),
    });
    prop_oneof![8 => proptest::sample::select(odd.to_vec()).prop_map(str::to_owned), 1 => long]
}

/// Strings in their quotes, with escapes that are right, wrong or mean NUL.
fn string() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "a",
        "b",
        "\\u0061",
        "ä",
        "😀",
        " ",
        ", ",
        ": ",
        "{",
        "]",
        "\\\"",
        "\\\\",
        "\\/",
        "\\n",
        "\\u0000",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\ude00",
        "\\x",
        "\t",
        "\u{7f}",
        "\\u00e4",
    ]);
    let likely = proptest::sample::select(vec!["a", "b", "\\u0061", "x, y: z", "ä"]);
    prop_oneof![
        4 => likely.prop_map(|text| format!("\"{text}\"")),
        1 => proptest::collection::vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat())),
    ]
}

/// Documents, with spaces in odd places, keys that may repeat, and now and then something that is no JSON.
fn document() -> impl Strategy<Value = String> {
    let space = || proptest::sample::select(vec!["", "", "", " ", "\n\t", "\r "]);
    let word = proptest::sample::select(vec!["true", "false", "null", "True", ""]).prop_map(str::to_owned);
    let leaf = prop_oneof![4 => number(), 4 => string(), 1 => word];
    let tree = leaf.prop_recursive(3, 12, 4, move |inner| {
        let item = (space(), inner.clone(), space())
            .prop_map(|(before, value, after)| format!("{before}{value}{after}"));
        let field = (space(), string(), space(), inner)
            .prop_map(|(before, key, after, value)| format!("{before}{key}{after}:{after}{value}"));
        prop_oneof![
            proptest::collection::vec(item, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec(field, 0..4).prop_map(|fields| format!("{{{}}}", fields.join(","))),
        ]
    });
    let deep = (63_usize..67).prop_map(|depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    prop_oneof![30 => tree, 1 => deep]
}

fn rule() -> impl Strategy<Value = String> {
    let ladder = proptest::sample::select(vec![
        "",
        "none",
        " none ",
        "\\tnone",
        "1m 5m",
        "60s,120m",
        "1m soon",
        "0ms",
        "3650d",
        "3651d",
        "0000000000000000000007s",
        "99999999999999999999s",
        "1 m",
        "1m none",
    ]);
    let max = proptest::sample::select(vec![
        "null",
        "0",
        "1",
        "999999999",
        "1000000000",
        "4294967295",
        "4294967296",
        "-1",
        "1e2",
        "1.0",
        "\"3\"",
    ]);
    (ladder, proptest::option::of(max)).prop_map(|(ladder, max)| match max {
        Some(max) => format!("{{\"ladder\":\"{ladder}\",\"max_attempts\":{max}}}"),
        None => format!("{{\"ladder\":\"{ladder}\"}}"),
    })
}

/// Enqueues by SQL; what is kept then, or nothing when it was refused.
async fn by_sql(
    scene: &Scene,
    store: &dyn Store,
    number: u128,
    payload: &str,
    options: &str,
) -> Option<JobSpec> {
    let id = JobId(Uuid::from_u128(number));
    let options = format!("{{\"id\":\"{id}\"{options}}}");
    let sql = "SELECT windlass.enqueue('k', $1::text, $2::text)";
    let answer = scene.client.query_one(sql, &[&payload, &options]).await;
    let kept = store.get(id).await.expect("get").map(|Job { spec, .. }| spec);
    assert_eq!(answer.is_ok(), kept.is_some(), "{payload} {options}: {answer:?}");
    kept
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_and_core_accept_and_keep_the_same() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let mut runner = TestRunner::new(Config::default());
    let mut accepted = 0;
    for at in 0..CASES {
        let (payload, retry) = (document(), rule()).new_tree(&mut runner).expect("a case").current();
        let number = at as u128 * 3 + 1;

        let core = Json::payload(&payload).ok();
        let kept = by_sql(&scene, &*store, number, &payload, "").await;
        assert_eq!(
            kept.map(|spec| spec.payload.as_str().to_owned()),
            core.as_ref().map(|json| json.as_str().to_owned()),
            "{payload:?}"
        );
        accepted += usize::from(core.is_some());

        let meta = Json::payload(&payload).ok();
        let kept = by_sql(&scene, &*store, number + 1, "1", &format!(",\"meta\":{payload}")).await;
        let kept = kept.and_then(|spec| spec.meta);
        assert_eq!(kept.as_ref().map(Json::as_str), meta.as_ref().map(Json::as_str), "meta {payload:?}");

        let rule = serde_json::from_str::<RetryRule>(&retry).ok().filter(|rule| rule.check().is_ok());
        let kept = by_sql(&scene, &*store, number + 2, "1", &format!(",\"retry\":{retry}")).await;
        assert_eq!(kept.and_then(|spec| spec.retry), rule, "{retry}");
    }
    assert!(
        (CASES / 10..CASES).contains(&accepted),
        "{accepted} of {CASES} were accepted: both must be tried"
    );
}
