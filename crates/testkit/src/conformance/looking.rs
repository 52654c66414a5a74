//! 17: lists, explanations, queues, workers. What an operator sees is what is.

use windlass_core::eligible::{Explanation, Hold};
use windlass_core::job::Start;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_core::state::StateName;
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::subject::Subject;

async fn list<S: Subject>(scene: &Scene<S>, filter: JobFilter, limit: u32) -> Vec<u128> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let request = ListRequest { filter: filter.clone(), limit, after };
        let page = scene.store().list(request).await.expect("list");
        assert!(page.jobs.len() <= limit.min(PAGE_MAX) as usize, "a page is too long");
        assert!(page.jobs.iter().all(|job| job.steps.is_empty()), "a list carries no steps");
        found.extend(page.jobs.iter().map(|job| number(job.id)));
        match page.next {
            Some(cursor) => after = Some(cursor),
            None => return found,
        }
    }
}

/// Pages go from the newest to the oldest, each job once.
pub async fn p17_pages_show_each_job_once<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.add((1..=450).map(job).collect()).await;
    let newest_first: Vec<u128> = (1..=450).rev().collect();
    for limit in [7, 200, 100_000] {
        assert_eq!(list(&scene, JobFilter::default(), limit).await, newest_first, "limit {limit}");
    }
    let first = ListRequest { filter: JobFilter::default(), limit: 10, after: None };
    let page = scene.store().list(first).await.expect("list");
    scene.add(vec![job(500)]).await;
    scene.reopen().await;
    let second = ListRequest { filter: JobFilter::default(), limit: 3, after: page.next };
    let page = scene.store().list(second).await.expect("list");
    assert_eq!(page.jobs.iter().map(|job| number(job.id)).collect::<Vec<_>>(), [440, 439, 438]);
    assert!(list(&Scene::<S>::new().await, JobFilter::default(), 5).await.is_empty());
}

/// Each filter finds what it says, and all that is said must hold.
pub async fn p17_filters_find_what_they_say<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let start = scene.clock.wall();
    scene.add(vec![job(1), job_with(2, |spec| spec.kind = kind("Mail"))]).await;
    scene.clock.advance(1_000);
    scene
        .add(vec![
            job_with(3, |spec| spec.key = key("shop_1")),
            job_with(4, |spec| spec.queue = queue("other")),
        ])
        .await;
    scene.add(vec![job_with(5, |spec| spec.payload = json("{\"name\":\"50% off_er \\\\ Größe\"}"))]).await;
    scene.store().cancel(id(1)).await.expect("cancel");
    let filter = |change: &dyn Fn(&mut JobFilter)| {
        let mut filter = JobFilter::default();
        change(&mut filter);
        filter
    };
    let text = |text: &str| filter(&|f| f.text = Some(text.to_owned()));
    let cases: Vec<(JobFilter, Vec<u128>)> = vec![
        (filter(&|f| f.states = vec![StateName::Canceled, StateName::Running]), vec![1]),
        (filter(&|f| f.states = vec![StateName::Queued]), vec![5, 4, 3, 2]),
        (filter(&|f| f.queue = Some(queue("other"))), vec![4]),
        (filter(&|f| f.kind = Some(kind("Mail"))), vec![2]),
        (filter(&|f| f.kind = Some(kind("mail"))), vec![]),
        (filter(&|f| f.key = key("shop_1")), vec![3]),
        (filter(&|f| f.key = key("shopx1")), vec![]),
        (filter(&|f| f.since = Some(start.plus_ms(1_000))), vec![5, 4, 3]),
        (filter(&|f| f.until = Some(start.plus_ms(1_000))), vec![2, 1]),
        (text("mAiL"), vec![2]),
        (text("HOP_1"), vec![3]),
        (text("0% OFF_"), vec![5]),
        (text("%"), vec![5]),
        (text("f_e"), vec![5]),
        (text("\\\\"), vec![5]),
        (text("öß"), vec![5]),
        (text("ÖSS"), vec![]),
        (text("-0000-0000-000000000004"), vec![4]),
        (text("nowhere"), vec![]),
        (
            filter(&|f| {
                f.queue = Some(queue("q"));
                f.states = vec![StateName::Queued];
                f.key = key("shop_1");
            }),
            vec![3],
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(list(&scene, filter.clone(), 2).await, expected, "{filter:?}");
        let counted = scene.store().count_jobs(filter.clone()).await.expect("count");
        let canceled = expected.iter().filter(|n| **n == 1).count() as u64;
        let queued = expected.len() as u64 - canceled;
        let found = (counted.of(StateName::Queued), counted.of(StateName::Canceled), counted.more);
        assert_eq!(found, (queued, canceled, false), "{filter:?}");
    }
}

/// Each hold is named, all of them at once, and none that does not hold.
pub async fn p17_explain_names_every_hold<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let store = scene.store();
    let now = scene.clock.wall();
    let all = job_with(1, |spec| {
        spec.key = key("shop");
        spec.budgets = vec![budget("cool"), budget("slots"), budget("spent"), budget("undefined")];
    });
    scene
        .add(vec![job_with(2, |spec| {
            spec.key = key("shop");
            spec.budgets = vec![budget("slots")];
        })])
        .await;
    assert_eq!(scene.claimed(1).await, [2]);
    scene.add(vec![windlass_core::job::NewJob { start: Start::AfterMs(500), ..all }]).await;
    store.cool_down(budget("cool"), 9_000).await.expect("cool_down");
    let policy = |slots, per_day| BudgetPolicy { slots, per_day, ..BudgetPolicy::default() };
    store.put_budget(budget("slots"), policy(Some(1), None)).await.expect("put_budget");
    store.put_budget(budget("spent"), policy(None, Some(1))).await.expect("put_budget");
    store.spend(budget("spent"), 1).await.expect("spend");
    scene.policy(|policy| policy.limit = Some(1)).await;
    store.pause_queue(queue("q"), true).await.expect("pause");
    let holds = vec![
        Hold::NotDue { run_at: now.plus_ms(500) },
        Hold::QueuePaused,
        Hold::QueueFull { limit: 1 },
        Hold::KeyBusy { key: key("shop").expect("a key"), job: id(2) },
        Hold::BudgetCooling { budget: budget("cool"), until: now.plus_ms(9_000) },
        Hold::BudgetSlots { budget: budget("slots"), slots: 1 },
        Hold::BudgetSpent { budget: budget("spent"), until: now.plus_ms(ms("1d") as i64 + 300_000) },
    ];
    assert_eq!(store.explain(id(1)).await.expect("explain"), Some(Explanation::Held { holds }));
}

/// A job that nothing holds is ready: with how many before it, and for how many workers.
pub async fn p17_explain_tells_where_a_job_stands<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let store = scene.store();
    let started = scene.clock.wall();
    scene.add((1..=4).map(job).collect()).await;
    scene.add(vec![job_with(5, |spec| spec.queue = queue("other")), job_at(6, Start::AfterMs(9_000))]).await;
    scene.add(vec![job_with(7, |spec| spec.priority = 1)]).await;
    let lease = scene.claim(1).await.remove(0);
    assert_eq!(number(lease.job.id), 7);
    store.beat(beat_of("a")).await.expect("beat");
    let mut picky = beat_of("b");
    picky.kinds = Some(vec![kind("another")]);
    store.beat(picky).await.expect("beat");
    let explain = async |n| store.explain(id(n)).await.expect("explain");
    assert_eq!(explain(4).await, Some(Explanation::Ready { ahead: 3, workers: 1 }));
    assert_eq!(explain(5).await, Some(Explanation::Ready { ahead: 0, workers: 0 }));
    assert_eq!(explain(7).await, Some(Explanation::Running { worker: worker("w"), since: started }));
    assert_eq!(explain(99).await, None);
    scene.end(lease.lease_ref(), Outcome::DONE).await;
    assert_eq!(explain(7).await, Some(Explanation::Final { state: StateName::Completed }));
    scene.clock.advance(60_001);
    assert_eq!(explain(1).await, Some(Explanation::Ready { ahead: 0, workers: 0 }), "the worker is silent");
}

/// Queues show what waits and what runs; a pause stops starts and nothing else.
pub async fn p17_queues_and_pause<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    let start = scene.clock.wall();
    assert!(scene.store().queues().await.expect("queues").is_empty());
    scene.add(vec![job(1), job(2), job_at(3, Start::AfterMs(99_000))]).await;
    scene.clock.advance(10);
    scene.add(vec![job_with(4, |spec| spec.queue = queue("a"))]).await;
    scene.store().put_queue(queue("z"), Default::default()).await.expect("put_queue");
    let lease = scene.claim(1).await.remove(0);
    let show = async |scene: &Scene<S>| -> Vec<(String, u64, u64, bool, Option<windlass_core::time::Time>)> {
        let queues = scene.store().queues().await.expect("queues");
        queues.iter().map(|q| (q.name.to_string(), q.queued, q.running, q.paused, q.oldest_due)).collect()
    };
    let a = ("a".to_owned(), 1, 0, false, Some(start.plus_ms(10)));
    let z = ("z".to_owned(), 0, 0, false, None);
    assert_eq!(show(&scene).await, [a, ("q".to_owned(), 2, 1, false, Some(start)), z]);
    scene.store().pause_queue(queue("q"), true).await.expect("pause");
    scene.reopen().await;
    assert!(scene.claim(9).await.is_empty(), "a pause survives a restart");
    scene.end(lease.lease_ref(), Outcome::DONE).await;
    assert_eq!(show(&scene).await[1], ("q".to_owned(), 2, 0, true, Some(start)));
    scene.store().put_queue(queue("q"), Default::default()).await.expect("put_queue");
    assert!(scene.claim(9).await.is_empty(), "a new policy does not end a pause");
    scene.store().pause_queue(queue("q"), false).await.expect("pause");
    assert_eq!(scene.claimed(9).await, [2]);
}

/// A worker is known from its first beat on, until it says goodbye.
pub async fn p17_workers<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let started_at = scene.clock.wall();
    scene.store().beat(beat_of("b")).await.expect("beat");
    scene.clock.advance(5_000);
    let mut later = beat_of("b");
    later.running = 3;
    later.kinds = Some(vec![kind("k")]);
    later.version = Some("test/2.0.0 \u{e9}".to_owned());
    later.host = None;
    scene.store().beat(later).await.expect("beat");
    scene.store().beat(beat_of("a")).await.expect("beat");
    let workers = scene.store().workers().await.expect("workers");
    let seen_at = scene.clock.wall();
    assert_eq!(workers.iter().map(|worker| worker.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((workers[1].started_at, workers[1].seen_at, workers[1].running), (started_at, seen_at, 3));
    assert_eq!((&workers[1].kinds, &workers[0].kinds), (&Some(vec![kind("k")]), &None));
    let whence = |at: usize| (workers[at].version.as_deref(), workers[at].host.as_deref());
    assert_eq!(whence(0), (Some("test/1.2.3"), Some("a.machine.example")));
    assert_eq!(whence(1), (Some("test/2.0.0 \u{e9}"), None), "it is what the newest beat says");
    scene.store().forget_worker(worker("b")).await.expect("forget");
    scene.store().forget_worker(worker("nobody")).await.expect("forget");
    assert_eq!(scene.store().workers().await.expect("workers").len(), 1);
}
