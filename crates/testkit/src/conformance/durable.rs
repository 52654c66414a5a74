//! 1: what was answered is there after a restart. 12: one clock decides.
//! 16: a payload comes back exactly.

use std::sync::Arc;

use windlass_core::job::{Job, JobSpec, Start};
use windlass_core::json::PAYLOAD_BYTES_MAX;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::schedule::{Missed, Overlap, SchedulePolicy};
use windlass_core::store::{Store, Written};
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

/// A job in every state, and everything beside the jobs, outlives a restart.
pub async fn p01_what_was_answered_survives_a_restart<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    furnish(&scene).await;
    let before = everything(scene.store()).await;
    scene.reopen().await;
    let after = everything(scene.store()).await;
    assert_eq!(before, after, "a restart changed what was there");
    assert_eq!(before.0.len(), 6, "all six jobs are compared");
}

/// After a restart a held lease is still held, and nobody else gets the job.
pub async fn p01_a_lease_survives_a_restart<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.add(vec![job(1)]).await;
    let lease = scene.claim_one().await;
    scene.reopen().await;
    assert!(scene.claim(10).await.is_empty(), "a restart took the lease away");
    scene.end(lease, Outcome::DONE).await;
    scene.reopen().await;
    assert!(scene.job(1).await.state.name().is_final());
}

type Everything = (Vec<Option<Job>>, String, String, String, String, String);

async fn everything(store: &Arc<dyn Store>) -> Everything {
    let mut jobs = Vec::new();
    for n in 1..=6 {
        jobs.push(store.get(id(n)).await.expect("get"));
    }
    let events: Vec<_> = store.events(None, 100).await.expect("events");
    (
        jobs,
        format!("{:?}", store.queues().await.expect("queues")),
        format!("{:?}", store.budgets().await.expect("budgets")),
        format!("{:?}", store.schedules().await.expect("schedules")),
        format!("{:?}", store.workers().await.expect("workers")),
        format!("{:?}", events.iter().map(|e| (e.at, e.what, &e.queue, &e.jobs)).collect::<Vec<_>>()),
    )
}

/// Fills a store: one job per state, one with every field set.
async fn furnish<S: Subject>(scene: &Scene<S>) {
    let store = scene.store();
    store.put_budget(budget("b"), BudgetPolicy { per_day: Some(9), ..Default::default() }).await.expect("b");
    store.cool_down(budget("c"), 5_000).await.expect("cool_down");
    store.beat(beat_of("w")).await.expect("beat");
    store.pause_queue(queue("still"), true).await.expect("pause");
    scene.policy(|policy| policy.limit = Some(7)).await;
    let report = SchedulePolicy {
        cron: "0 3 * * *".into(),
        zone: "Europe/Berlin".into(),
        overlap: Overlap::Queue,
        missed: Missed::All(3),
        paused: false,
        job: full_spec(99),
    };
    store.put_schedule(schedule("s"), report).await.expect("put_schedule");
    scene.add((1..=4).map(job).collect()).await;
    let leases = scene.claim(4).await;
    scene.end(leases[0].lease_ref(), Outcome::Completed { result: Some(json("[1,2]")) }).await;
    scene.end(leases[1].lease_ref(), failed("no")).await;
    assert_eq!(scene.step(leases[2].lease_ref(), "one", "{\"a\":1}").await, Written::Done);
    assert_eq!(scene.progress(leases[2].lease_ref(), "0.5").await, Written::Done);
    scene.end(leases[3].lease_ref(), Outcome::Parked { until: Start::AfterMs(500) }).await;
    let mut full = job(5);
    full.spec = full_spec(5);
    scene.add(vec![full, job(6)]).await;
    store.cancel(id(6)).await.expect("cancel");
}

fn full_spec(n: u128) -> JobSpec {
    let mut spec = job(n).spec;
    spec.priority = -3;
    spec.key = key("shop 1");
    spec.dedupe_key = if n == 5 { dedupe("größe") } else { None };
    spec.budgets = vec![budget("b"), budget("c")];
    spec.retry =
        Some(windlass_core::policy::ladder::RetryRule { ladder: ladder("1s 2s 3s"), max_attempts: Some(2) });
    spec.timeout_ms = Some(1_234);
    spec.meta = Some(json("{\"from\":\"test\"}"));
    spec
}

/// The injected clock is the store's clock, and the only one: while it stands
/// still nothing falls due and nothing runs out.
pub async fn p12_one_clock_decides<S: Subject>() {
    let scene = Scene::<S>::new().await;
    assert_eq!(scene.store().now().await.expect("now"), scene.clock.wall());
    scene
        .add(vec![job_at(1, Start::AfterMs(1_000)), job_at(2, Start::At(scene.clock.wall().plus_ms(2_000)))])
        .await;
    assert!(scene.claim(10).await.is_empty(), "nothing is due yet");
    scene.clock.advance(999);
    assert!(scene.claim(10).await.is_empty(), "a millisecond too early");
    scene.clock.advance(1);
    assert_eq!(scene.claimed(10).await, [1]);
    scene.clock.advance(1_000);
    assert_eq!(scene.claimed(10).await, [2]);
    let job = scene.job(2).await;
    assert_eq!(job.started_at, Some(scene.clock.wall()));
    assert_eq!(job.created_at, scene.clock.wall().plus_ms(-2_000));
    scene.clock.advance(19_000);
    assert!(scene.expired().await.is_empty(), "the first look");
    scene.clock.advance(9_999);
    assert!(scene.expired().await.is_empty(), "a millisecond before the lease runs out");
    scene.clock.advance(1);
    assert_eq!(scene.expired().await, [1], "the lease that ran out, and only that");
    assert_eq!(scene.store().now().await.expect("now"), scene.clock.wall());
}

/// What passed the gate comes back byte for byte: as payload, meta, step, progress and result.
pub async fn p16_json_comes_back_exactly<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    let texts = payloads();
    for (n, text) in (1..).zip(&texts) {
        scene
            .add(vec![job_with(n, |spec| {
                spec.payload = json(text);
                spec.meta = (text.len() < 1_000).then(|| json(text));
            })])
            .await;
        let lease = scene.claim_one().await;
        let small = if text.len() < 1_000 { text.as_str() } else { "0" };
        assert_eq!(scene.step(lease, "s", text).await, Written::Done);
        assert_eq!(scene.progress(lease, small).await, Written::Done);
        scene.end(lease, Outcome::Completed { result: Some(json(small)) }).await;
    }
    scene.reopen().await;
    for (n, text) in (1..).zip(&texts) {
        let job = scene.job(n).await;
        let text = json(text);
        let shown: String = text.as_str().chars().take(60).collect();
        assert!(job.spec.payload.as_str() == text.as_str(), "the payload {shown} came back changed");
        assert!(job.steps[0].output.as_str() == text.as_str(), "the output {shown} came back changed");
        if text.as_str().len() < 1_000 {
            assert!(job.spec.meta.as_ref() == Some(&text), "the meta {shown} came back changed");
            assert!(job.progress.as_ref() == Some(&text), "the progress {shown} came back changed");
        }
    }
}

fn payloads() -> Vec<String> {
    let nested = format!("{}{}", "[".repeat(64), "]".repeat(64));
    let large = format!("\"{}\"", "ä".repeat((PAYLOAD_BYTES_MAX - 2) / 2));
    let mut texts: Vec<String> = [
        "null",
        "0",
        "-0",
        "1.0",
        "1e2",
        "1E+2",
        "0.1",
        "1.10",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "\"\"",
        "\"'; DROP TABLE jobs; --\"",
        "\"\\u00e9\"",
        "\"é\"",
        "\"\\ud83d\\ude00\"",
        "\"😀\"",
        "\"\\\\ \\/ \\\" \\n\"",
        "{\"b\":1,\"a\":2,\"\":3}",
        "{\"$gt\":\"\"}",
        "[[],{},[{}]]",
        "\"\\u0001\"",
        "\"%s %_ \\\\_\"",
        "true",
        "{\"n\":18446744073709551615}",
    ]
    .into_iter()
    .filter(|text| windlass_core::json::Json::payload(text).is_ok())
    .map(str::to_owned)
    .collect();
    texts.extend([nested, large]);
    texts
}
