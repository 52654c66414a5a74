//! The audit: what contradicts itself is found, wherever it is, and nothing else is.

use windlass_core::audit::{AuditBite, AuditFrom, FINDINGS_MAX};
use windlass_core::store::Store;
use windlass_testkit::clock::FakeClock;

use crate::scene::Scene;
use crate::upgrade::stocked;

/// What is broken, and what is said of it.
const BREACHES: [(&str, &str); 28] = [
    ("UPDATE windlass.ready SET gate = gate + 1", "is ready at another gate than its own"),
    ("UPDATE windlass.waiting SET rank = rank + 1", "waits at another gate than its own"),
    ("UPDATE windlass.ready SET more_seqs = ARRAY[seq], more_ids = ARRAY[id]", "is named twice"),
    ("DELETE FROM windlass.ready", "is queued in 0 places"),
    ("DELETE FROM windlass.waiting", "is queued in 0 places"),
    ("UPDATE windlass.ready SET seq = seq + 1000", "is ready"),
    ("UPDATE windlass.ready SET fence = fence + 5", "differs from what its place says of it"),
    ("UPDATE windlass.waiting SET run_at_ms = run_at_ms - 1", "differs from what its place says of it"),
    ("UPDATE windlass.delayed SET run_at_ms = run_at_ms + 1", "is delayed"),
    ("UPDATE windlass.keys SET holder = NULL", "is not held by it"),
    ("UPDATE windlass.keys SET holder = NULL", "waits for nobody"),
    ("UPDATE windlass.keys SET holder = 999", "key is held by a job that does not run: 999"),
    ("INSERT INTO windlass.tally VALUES (0, 'q', 1)", "running jobs of q: 4, counted as 5"),
    ("INSERT INTO windlass.tally VALUES (0, 'q', 0, 1)", "queued jobs of q: 4, counted as 5"),
    ("UPDATE windlass.grants SET open = 0", "is granted, and does not run"),
    ("UPDATE windlass.grants SET open = given", "is open in its grant, and has a row of its own"),
    ("DELETE FROM windlass.grants WHERE open = 0", "nobody will see the lease"),
    ("UPDATE windlass.grants SET block = block + 100", "is of a job that is gone"),
    (
        "INSERT INTO windlass.grants SELECT block, number + 1000, given, open, due_ms, started_ms, lease_ms, fence, worker, \
         label FROM windlass.grants",
        "is granted 2 times",
    ),
    ("INSERT INTO windlass.tally VALUES (2, 'q', 1)", "delayed jobs of q: 2, counted as 3"),
    ("UPDATE windlass.grants SET due_ms = due_ms + 100000", "nobody will see the lease"),
    ("DELETE FROM windlass.ended", "is finished and not listed as such"),
    ("UPDATE windlass.ended SET seqs = seqs || 999::bigint", "listed as finished and not so: 999"),
    ("DELETE FROM windlass.steps", "miscounts its steps"),
    ("UPDATE windlass.steps SET job_seq = 999", "step of a job that is gone: 999"),
    ("UPDATE windlass.runs SET seq = 999 WHERE state = 2", "run of a job that is gone: 999"),
    (
        "UPDATE windlass.runs SET deduped = NOT deduped WHERE state = 1",
        "differs from what its run says of it",
    ),
    ("UPDATE windlass.jobs SET dedupe_held = NULL", "holds its dedupe key wrongly"),
];

#[tokio::test]
async fn an_audit_finds_what_contradicts_itself() {
    for (breach, said) in BREACHES {
        let scene = Scene::new().await;
        let store = scene.store(Some(FakeClock::default())).await;
        stocked(&store).await;
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new(), "before {breach}");
        scene.client.batch_execute(breach).await.expect(breach);
        let found = store.audit().await.expect("an audit");
        assert!(found.iter().any(|sentence| sentence.contains(said)), "{breach}: {found:?}");
    }
}

/// A bite is some numbers of jobs, or a few pages of a table, and each says how far the audit is.
#[tokio::test]
async fn an_audit_goes_on_from_bite_to_bite() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let filled =
        "INSERT INTO windlass.steps SELECT 900000 + n, 1, 's', '1', 1, 1 FROM generate_series(1, 60000) AS n";
    scene.client.batch_execute(filled).await.expect("steps of nobody");
    let (mut from, mut findings, mut bites, mut before) = (AuditFrom::default(), 0, 0, 0);
    loop {
        let AuditBite { findings: found, next, done, of } = store.audit_bite(from).await.expect("a bite");
        assert!(before < done && done <= of, "{before} {done} {of}");
        (findings, bites, before) = (findings + found.len(), bites + 1, done);
        match next {
            Some(next) => from = next,
            None => break assert_eq!(done, of),
        }
    }
    assert!((4..=6).contains(&bites), "{bites} bites: numbers that nobody has are passed over");
    assert_eq!(findings, 3 * FINDINGS_MAX, "its steps are three bites, and of each enough is told");
    assert_eq!(store.audit().await.expect("an audit").len(), FINDINGS_MAX, "and of all");
    // Whoever makes up a place is told nothing that is not there.
    let beyond = AuditFrom { part: u32::MAX, at: u64::MAX };
    assert_eq!(store.audit_bite(beyond).await.expect("a bite").next, None);
    let far = AuditFrom { part: 0, at: u64::MAX };
    store.audit_bite(far).await.expect("a bite");
}
