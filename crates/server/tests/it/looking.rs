//! What people look at first: what is wrong, what waits for what, who works, and what was said.

use serde_json::json;
use windlass_testkit::eventually::eventually;

use windlass_server::Settings;

use crate::house::House;

#[tokio::test]
async fn what_an_attempt_said_is_kept_under_its_lease() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k"})).await;
    let lease = house.claim("w").await;
    let path = format!("/v1/jobs/{id}/log");
    assert_eq!(house.get(&path).await.json(), json!({"logs": []}));
    let fence = lease["fence"].as_u64().unwrap();
    let put =
        |fence: u64, text: String| house.put(&path, json!({"fence": fence, "text": text, "dropped": 7}));
    assert_eq!(put(fence, "one\n".to_owned()).await.status, 200);
    assert_eq!(put(fence, "one\ntwo\n".to_owned()).await.status, 200);
    let stale = put(fence + 1, "a lie\n".to_owned()).await;
    assert_eq!((stale.status, &stale.json()["error"]["code"]), (409, &json!("lease_lost")));
    assert_eq!(put(fence, "x".repeat(64 * 1024 + 1)).await.status, 413);
    let logs = house.get(&path).await.json();
    assert_eq!(logs["logs"].as_array().unwrap().len(), 1);
    assert_eq!((&logs["logs"][0]["text"], &logs["logs"][0]["dropped"]), (&json!("one\ntwo\n"), &json!(7)));
    let page = house.get(&format!("/jobs/{id}")).await.text;
    assert!(
        page.contains("Output") && page.contains("one\ntwo") && page.contains("7 bytes before"),
        "{page}"
    );
    let settled = json!({"results": [{"job_id": id, "fence": fence, "outcome": "completed"}]});
    assert_eq!(house.post("/v1/leases/settle", settled).await.status, 200);
    assert_eq!(put(fence, "too late\n".to_owned()).await.status, 409);
    assert_eq!(house.get("/v1/jobs/0198c0de-0000-7000-8000-000000000001/log").await.status, 404);
}

#[tokio::test]
async fn nobody_works_is_said_first() {
    let house = House::open().await;
    house.post("/v1/jobs", json!({"kind": "it's"})).await;
    let page = house.get("/").await.text;
    assert!(page.contains("No worker is alive, and 1 job waits"), "{page}");
    assert!(
        page.contains("windlass work --kind &#39;it&#39;\\&#39;&#39;s&#39;")
            || page.contains("windlass work --kind 'it"),
        "{page}"
    );
    let waiting = house.get("/waiting").await.text;
    assert!(
        waiting.contains("The one queued job was looked at") && waiting.contains("for a worker"),
        "{waiting}"
    );
    house.send("POST", "/v1/queues/default/pause", &[], "").await;
    // What was found out is said again for a second.
    eventually("the pause is seen", || async {
        let waiting = house.get("/waiting").await.text;
        waiting.contains("for the queue default, which is paused").then_some(())
    })
    .await;
}

/// All that is queued is looked at, and not a page of it: what waits for what adds up.
#[tokio::test]
async fn what_waits_for_what_adds_up_over_many_pages() {
    let house = House::open().await;
    let enqueue = async |count: usize, job: serde_json::Value| {
        let jobs = vec![job; count];
        assert_eq!(house.post("/v1/jobs/batch", json!({ "jobs": jobs })).await.status, 201);
    };
    enqueue(1, json!({"kind": "k", "queue": "keyed", "key": "only"})).await;
    let body = json!({"worker": "w", "queues": ["keyed"], "limit": 1, "lease_ms": 600_000});
    assert_eq!(house.post("/v1/claim", body).await.json()["leases"].as_array().unwrap().len(), 1);
    enqueue(100, json!({"kind": "k", "queue": "keyed", "key": "only"})).await;
    enqueue(150, json!({"kind": "due"})).await;
    enqueue(120, json!({"kind": "k", "delay": "1h"})).await;
    house.send("POST", "/v1/queues/still/pause", &[], "").await;
    enqueue(80, json!({"kind": "k", "queue": "still"})).await;

    let rows = eventually("all of them were looked at", || async {
        let page = house.get("/waiting").await.text;
        let table = page.split_once("All 450 queued jobs were looked at.")?.1.to_owned();
        Some(table.split("<tr data-row").skip(1).map(str::to_owned).collect::<Vec<_>>())
    })
    .await;
    let mut counted = Vec::new();
    for row in &rows {
        let count = row.split_once("<td class=\"num\">").unwrap().1.split('<').next().unwrap();
        let link = row.split_once("href=\"").unwrap().1.split('"').next().unwrap();
        let (words, link) = (row.split("class=\"open\"").nth(1).unwrap(), link.replace("&amp;", "&"));
        let words = words.split_once('>').unwrap().1.split('<').next().unwrap();
        counted.push((count.parse::<u64>().unwrap(), words.to_owned(), link));
    }
    let row = |count, words: &str, link: &str| (count, words.to_owned(), link.to_owned());
    assert_eq!(
        counted,
        [
            row(
                150,
                "for a worker: none that is alive knows the kind due and claims from the queue default",
                "/jobs?state=queued&queue=default&kind=due"
            ),
            row(120, "for their time", "/jobs?state=queued"),
            row(
                100,
                "for the key only of the queue keyed, which another job has",
                "/jobs?state=queued&queue=keyed&key=only"
            ),
            row(80, "for the queue still, which is paused", "/jobs?state=queued&queue=still"),
        ]
    );
    for (_, _, link) in &counted {
        assert_eq!(house.get(link).await.status, 200, "{link}");
    }
    let page = house.get("/jobs").await.text;
    let split = page.split_once("id=\"split\"").unwrap().1.split_once("waiting, by reason").unwrap().0;
    for (count, word) in [(150, "due"), (120, "later"), (180, "blocked")] {
        assert!(split.contains(&format!("{count}</span> {word}")), "{count} {word}: {split}");
    }
}

#[tokio::test]
async fn a_worker_that_has_ended_is_not_counted_on() {
    let house = House::open().await;
    for _ in 0..3 {
        house.enqueue(json!({"kind": "k"})).await;
        house.claim("w").await;
    }
    let workers = eventually("the worker is known", || async {
        Some(house.get("/v1/workers").await.json())
            .filter(|all| !all["workers"].as_array().unwrap().is_empty())
    })
    .await;
    assert_eq!(
        workers["workers"][0]["running"], 3,
        "what the server has seen, and not what was last reported"
    );
    assert!(
        house.get("/workers").await.text.contains(r#"<span class="piece">k</span></span></a>"#),
        "what it runs is named"
    );
    assert_eq!(house.send("DELETE", "/v1/workers/w", &[], "").await.status, 204);
    assert_eq!(house.get("/v1/workers").await.json(), json!({"workers": []}));
    assert_eq!(house.send("DELETE", "/v1/workers/w", &[], "").await.status, 204);
}

/// Who works is shown with what it works with, where, and when it last crashed; a program that was started again has
/// another name, and is known by its host.
#[tokio::test]
async fn a_worker_is_shown_with_version_host_and_last_crash() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k"})).await;
    let claim = async |worker: &str, agent: &str| {
        let body = json!({"worker": worker, "queues": ["default"], "limit": 1, "lease_ms": 100});
        let json = ("content-type", "application/json");
        let headers = [json, ("user-agent", agent)];
        let reply = house.send("POST", "/v1/claim", &headers, &body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["leases"].as_array().unwrap().len()
    };
    let worker = async |name: &str| {
        let workers = house.get("/v1/workers").await.json();
        workers["workers"].as_array().unwrap().iter().find(|worker| worker["name"] == name).cloned()
    };
    assert_eq!(claim("box-1", "windlass-python/9.8.7 (box)").await, 1);
    eventually("the worker is known", || worker("box-1")).await;
    // Nobody renews the lease: another worker of that host gets the job.
    eventually("the job is taken back", || async {
        (claim("box-2", "windlass-python/9.8.8 (box)").await == 1).then_some(())
    })
    .await;
    claim("plain", "curl/8.5.0").await;
    let first = eventually("the crash is seen", || async {
        worker("box-1").await.filter(|worker| !worker["last_crash"].is_null())
    })
    .await;
    assert_eq!((&first["version"], &first["host"]), (&json!("windlass-python/9.8.7"), &json!("box")));
    let crash = &first["last_crash"];
    assert_eq!((&crash["job_id"], &crash["worker"]), (&json!(id), &json!("box-1")));
    let second = eventually("the second is known", || worker("box-2")).await;
    assert_eq!((&second["version"], &second["last_crash"]), (&json!("windlass-python/9.8.8"), crash));
    let plain = eventually("the third is known", || worker("plain")).await;
    assert_eq!((&plain["version"], &plain["host"]), (&json!("curl/8.5.0"), &json!(null)));
    assert_eq!(plain["last_crash"], json!(null));

    let page = house.get("/workers").await.text;
    assert!(page.contains("windlass-python/9.8.7 on box") && page.contains("curl/8.5.0"), "{page}");
    assert!(page.contains(" as box-1") && page.contains(&format!("/jobs/{id}")), "{page}");
}

/// What "Enqueue again" sends is the whole job, but for its id and its time.
#[tokio::test]
async fn a_job_like_another_has_all_that_the_other_has() {
    let house = House::with(Settings::default()).await;
    let whole = json!({
        "kind": "k", "queue": "q", "payload": {"a": 1}, "priority": 3, "key": "y", "dedupe_key": "only",
        "budgets": ["etsy"], "retry": {"ladder": "1s 5s", "max_attempts": 2}, "timeout": "30s", "meta": {"by": "me"},
    });
    let id = house.enqueue(whole.clone()).await;
    let page = house.get(&format!("/jobs/{id}")).await.text;
    let (_, form) = page.split_once("Enqueue again").unwrap();
    let (form, _) = form.split_once("</form>").unwrap();
    for name in whole.as_object().unwrap().keys() {
        assert!(form.contains(&format!("name=\"{name}\"")), "{name} is not in {form}");
    }
    for value in
        ["only", "[&quot;etsy&quot;]", "&quot;max_attempts&quot;:2", "30s", "{&quot;by&quot;:&quot;me&quot;}"]
    {
        assert!(form.contains(value), "{value} is not in {form}");
    }
}
