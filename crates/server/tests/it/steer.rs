//! What people do with jobs, queues and budgets; what they keep beside them; and who did it.

use serde_json::{Value, json};
use windlass_server::Settings;
use windlass_testkit::eventually::eventually;

use crate::house::{House, Reply};

async fn delete(house: &House, path: &str) -> Reply {
    house.send("DELETE", path, &[], "").await
}

async fn claim_and_settle(house: &House, outcome: Value) {
    let lease = house.claim("w").await;
    let (id, fence) = (&lease["job"]["id"], &lease["fence"]);
    let mut settlement = json!({"job_id": id, "fence": fence});
    settlement.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
    let reply = house.post("/v1/leases/settle", json!({"results": [settlement]})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

#[tokio::test]
async fn a_job_for_later_is_run_now() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k", "delay": "1h"})).await;
    let run = format!("/v1/jobs/{id}/run");
    assert_eq!(house.post(&run, json!({})).await.json()["outcome"], "made_due");
    assert_eq!(house.post(&run, json!({})).await.json()["outcome"], "already_due");
    let lease = house.claim("w").await;
    assert_eq!(lease["job"]["id"], json!(id));
    let refused = house.post(&run, json!({})).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "running"));
    let settlement = json!({"job_id": id, "fence": lease["fence"], "outcome": "completed"});
    house.post("/v1/leases/settle", json!({"results": [settlement]})).await;
    let refused = house.post(&run, json!({})).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "final"));
    assert!(refused.text.contains("Retry it"), "{}", refused.text);
    let nobody = "0198c0de-0000-7000-8000-0000000000ff";
    assert_eq!(house.post(&format!("/v1/jobs/{nobody}/run"), json!({})).await.status, 404);
    // All that match, in the background.
    for _ in 0..3 {
        house.enqueue(json!({"kind": "many", "delay": "1h"})).await;
    }
    let dry = house.post("/v1/jobs/run", json!({"filter": {"kind": "many"}, "dry_run": true})).await;
    assert_eq!(dry.json()["matched"], 3);
    assert_eq!(house.post("/v1/jobs/run", json!({"filter": {"kind": "many"}})).await.status, 202);
    eventually("all three are due", async || {
        let runs = house.get("/v1/retries").await.json();
        (runs["runs"][0]["does"] == "run" && runs["runs"][0]["done"] == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_job_is_run_again_from_a_step() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k"})).await;
    let lease = house.claim("w").await;
    for name in ["fetch", "send"] {
        let path = format!("/v1/jobs/{id}/steps/{name}");
        let stored = house.put(&path, json!({"fence": lease["fence"], "output": 1})).await;
        assert_eq!(stored.status, 200, "{}", stored.text);
    }
    let rerun = format!("/v1/jobs/{id}/rerun");
    assert_eq!(house.post(&rerun, json!({"from": "send"})).await.code(), "not_final");
    let settlement = json!({"job_id": id, "fence": lease["fence"], "outcome": "completed"});
    house.post("/v1/leases/settle", json!({"results": [settlement]})).await;
    assert_eq!(house.post(&rerun, json!({"from": "other"})).await.code(), "no_step");
    assert_eq!(house.post(&rerun, json!({})).await.status, 400);
    let page = house.get(&format!("/jobs/{id}")).await.text;
    assert!(page.contains("run again from here"), "{page}");
    assert_eq!(house.post(&rerun, json!({"from": "send"})).await.json()["outcome"], "retried");
    let steps = house.claim("w").await["job"]["steps"].clone();
    assert_eq!(steps.as_array().map(Vec::len), Some(1), "{steps}");
    assert_eq!(steps[0]["name"], "fetch");
}

#[tokio::test]
async fn jobs_are_deleted_with_what_they_said() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k"})).await;
    let lease = house.claim("w").await;
    let log = json!({"fence": lease["fence"], "text": "a secret\n"});
    assert_eq!(house.put(&format!("/v1/jobs/{id}/log"), log).await.status, 200);
    let refused = delete(&house, &format!("/v1/jobs/{id}")).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "running"));
    assert!(refused.text.contains("Cancel it first"), "{}", refused.text);
    let settlement = json!({"job_id": id, "fence": lease["fence"], "outcome": "completed"});
    house.post("/v1/leases/settle", json!({"results": [settlement]})).await;
    assert_eq!(delete(&house, &format!("/v1/jobs/{id}")).await.status, 204);
    assert_eq!(house.get(&format!("/v1/jobs/{id}")).await.status, 404);
    assert_eq!(delete(&house, &format!("/v1/jobs/{id}")).await.status, 404);
    let found = house.store.logs(id.parse().unwrap()).await.unwrap();
    assert!(found.is_empty(), "what it said is gone, too: {found:?}");
    // Many at once must say in which states.
    for _ in 0..3 {
        house.enqueue(json!({"kind": "many", "delay": "1h"})).await;
    }
    let unsaid = house.post("/v1/jobs/delete", json!({"filter": {"kind": "many"}})).await;
    assert_eq!((unsaid.status, unsaid.field().as_str()), (400, "filter.state"));
    let filter = json!({"kind": "many", "state": ["queued"]});
    assert_eq!(house.post("/v1/jobs/delete", json!({"filter": filter})).await.status, 202);
    eventually("all are gone", async || {
        let left = house.get("/v1/jobs?kind=many").await.json();
        left["jobs"].as_array().is_some_and(Vec::is_empty).then_some(())
    })
    .await;
}

#[tokio::test]
async fn queues_and_budgets_are_deleted() {
    let house = House::open().await;
    house.put("/v1/queues/mail", json!({"limit": 2})).await;
    let id = house.enqueue(json!({"kind": "k", "queue": "mail"})).await;
    let refused = delete(&house, "/v1/queues/mail").await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "in_use"));
    assert_eq!(refused.json()["error"]["details"], json!({"queued": 1, "running": 0}));
    assert_eq!(delete(&house, &format!("/v1/jobs/{id}")).await.status, 204);
    assert_eq!(delete(&house, "/v1/queues/mail").await.status, 204);
    assert_eq!(delete(&house, "/v1/queues/mail").await.status, 404);
    house.put("/v1/budgets/etsy", json!({"per_second": 1})).await;
    house.post("/v1/budgets/etsy/cool-down", json!({"for": "5m"})).await;
    assert!(house.get("/budgets").await.text.contains("End cool-down"));
    let ended = house.post("/v1/budgets/etsy/cool-down", json!({"for": "0s"})).await.json();
    assert_eq!(ended["cooling_until"], Value::Null);
    assert_eq!(delete(&house, "/v1/budgets/etsy").await.status, 204);
    assert_eq!(delete(&house, "/v1/budgets/etsy").await.status, 404);
}

/// A group of failures leads to its jobs, and to all that can be done with them.
#[tokio::test]
async fn jobs_are_found_by_what_their_error_says() {
    let house = House::open().await;
    for error in ["row 17 of 200", "row 18 of 200", "no connection"] {
        house.enqueue(json!({"kind": "k", "retry": {"ladder": "none"}})).await;
        claim_and_settle(&house, json!({"outcome": "retry", "error": error})).await;
    }
    let found = async |query: &str| {
        let reply = house.get(&format!("/v1/jobs?{query}")).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["jobs"].as_array().unwrap().len()
    };
    assert_eq!(found("error=row%20%23%20of%20%23").await, 2, "a group, as it is folded");
    assert_eq!(found("error=NO%20CONN").await, 1, "a part of the text");
    assert_eq!(found("error=row%20%23%20of%20%23&limit=1").await, 1);
    assert_eq!((found("since=1h").await, found("until=1h").await), (3, 0), "a stretch of time");
    let page = house.get("/jobs?error=row%20%23%20of%20%23").await.text;
    assert!(page.matches("data-row").count() == 2, "{page}");
    let overview = eventually("the failures are grouped", async || {
        let page = house.get("/").await.text;
        page.contains("/jobs?error=row%20%23%20of%20%23").then_some(page)
    });
    let overview = overview.await;
    assert!(overview.contains("windlass retry --state failed --error"), "{overview}");
    let body = json!({"filter": {"state": ["failed"], "error": "row # of #"}});
    assert_eq!(house.post("/v1/jobs/retry", body).await.status, 202);
    eventually("the two are retried", async || (found("state=queued").await == 2).then_some(())).await;
    assert_eq!(found("state=failed").await, 1);
}

#[tokio::test]
async fn views_are_saved_for_everybody() {
    let mut house = House::open().await;
    let put = house.put("/v1/views/broken%20today", json!({"query": "state=failed&since=1d"})).await;
    assert_eq!(put.status, 204, "{}", put.text);
    for wrong in ["state=odd", "colour=red", "limit=9000"] {
        let refused = house.put("/v1/views/x", json!({"query": wrong})).await;
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text);
    }
    let views = house.get("/v1/views").await.json();
    assert_eq!(views, json!({"views": [{"name": "broken today", "query": "state=failed&since=1d"}]}));
    let page = house.get("/jobs?state=failed&since=1d").await.text;
    assert!(page.contains("broken today") && page.contains("forget this view"), "{page}");
    assert!(house.get("/jobs?kind=k").await.text.contains("save this view"));
    assert_eq!(delete(&house, "/v1/views/broken%20today").await.status, 204);
    assert_eq!(delete(&house, "/v1/views/broken%20today").await.status, 404);
    house.close().await;
}

/// Who did what outlives the server; what was refused, or only looked at, is not in it.
#[tokio::test]
async fn who_did_what_is_written_down() {
    let mut house = House::closed().await;
    house.post("/v1/queues/mail/pause", json!({})).await;
    let id = house.enqueue(json!({"kind": "k", "delay": "1h"})).await;
    house.post(&format!("/v1/jobs/{id}/run"), json!({})).await;
    house.post(&format!("/v1/jobs/{id}/retry"), json!({})).await;
    house.get("/v1/queues").await;
    let actions = eventually("both are written down", async || {
        let actions = house.get("/v1/actions").await.json()["actions"].clone();
        (actions.as_array().map(Vec::len) == Some(2)).then_some(actions)
    });
    let actions = actions.await;
    let told: Vec<(&str, &str)> = actions.as_array().unwrap().iter().map(named).collect();
    assert_eq!(told, [("admin", "run_job"), ("admin", "pause_queue")]);
    let events = eventually("both are told among the events", async || {
        let events = house.get("/v1/events/page?after=0-0").await.json()["events"].clone();
        let acted: Vec<Value> =
            events.as_array()?.iter().filter(|event| event["what"] == "acted").cloned().collect();
        (acted.len() == 2).then_some(acted)
    });
    let told: Vec<Value> = events.await.into_iter().map(|event| event["action"].clone()).collect();
    assert_eq!(told[0], json!({"by": "admin", "call": "pause_queue", "on": "/v1/queues/mail/pause"}));
    assert_eq!(told[1]["on"], format!("/v1/jobs/{id}/run"));
    let page = house.get("/actions").await.text;
    let pieces = r#"<span class="piece">mail/</span><wbr><span class="piece">pause</span>"#;
    assert!(page.contains("run job") && page.contains(pieces), "{page}");
    // What is asked for last is written before the server ends.
    house.post("/v1/queues/mail/resume", json!({})).await;
    house.close().await;
    let shelf = windlass_engine::core::id::ShelfName::new("windlass.actions").unwrap();
    let kept = house.store.records().unwrap().count(shelf, String::new()).await.unwrap();
    assert_eq!(kept.iter().map(|(_, count)| count).sum::<u64>(), 3);
}

fn named(action: &Value) -> (&str, &str) {
    (action["by"].as_str().unwrap(), action["call"].as_str().unwrap())
}

/// The chips above the list say how many there are, and what the queued ones wait for.
#[tokio::test]
async fn the_list_counts_its_states() {
    let house = House::open().await;
    house.enqueue(json!({"kind": "k", "delay": "1h"})).await;
    house.enqueue(json!({"kind": "k"})).await;
    house.enqueue(json!({"kind": "other"})).await;
    house.put("/v1/queues/still", json!({})).await;
    house.send("POST", "/v1/queues/still/pause", &[], "").await;
    house.enqueue(json!({"kind": "k", "queue": "still"})).await;
    let page = house.get("/jobs").await.text;
    let split = page.split("id=\"split\"").nth(1).and_then(|rest| rest.split("waiting, by reason").next());
    let split: String = split.unwrap_or_default().split('>').skip(1).collect::<Vec<_>>().join(" ");
    let words: Vec<&str> =
        split.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let words: Vec<&&str> = words
        .iter()
        .filter(|word| !["span", "class", "num", "a", "href", "waiting"].contains(*word))
        .collect();
    assert_eq!(words, [&"2", &"due", &"1", &"later", &"1", &"blocked"], "{page}");
    let chip = |page: &str, state: &str| {
        let chip =
            page.split(&format!("class=\"chip {state}\"")).nth(1).unwrap().split("</a>").next().unwrap();
        chip.split("class=\"num\">").nth(1).unwrap().split('<').next().unwrap().to_owned()
    };
    assert_eq!((chip(&page, "queued"), chip(&page, "failed")), ("4".to_owned(), "0".to_owned()));
    let page = house.get("/jobs?kind=other").await.text;
    assert_eq!(chip(&page, "queued"), "1");
    // More than a page of the list, in a state that the store keeps no count of.
    let jobs: Vec<Value> = (0..250).map(|_| json!({"kind": "many"})).collect();
    assert_eq!(house.post("/v1/jobs/batch", json!({"jobs": jobs})).await.status, 201);
    house.post("/v1/jobs/cancel", json!({"filter": {"kind": "many"}, "pace": 10_000})).await;
    eventually("all are canceled", async || {
        let dry = json!({"filter": {"kind": "many"}, "dry_run": true});
        (house.post("/v1/jobs/cancel", dry).await.json()["matched"] == 0).then_some(())
    })
    .await;
    let page = house.get("/jobs?kind=many").await.text;
    assert_eq!((chip(&page, "canceled"), chip(&page, "queued")), ("250".to_owned(), "0".to_owned()));
}

/// What became of a schedule's runs is found again from their ids.
#[tokio::test]
async fn a_schedule_tells_its_history() {
    let house = House::open().await;
    let body = json!({"cron": "* * * * * *", "job": {"kind": "tick"}});
    assert_eq!(house.put("/v1/schedules/every%20second", body).await.status, 200);
    // The first job is never claimed: every run after it is left out.
    let page = eventually("a run was left out", async || {
        let page = house.get("/schedules/every%20second").await.text;
        page.contains("left out: the job of an earlier run").then_some(page)
    });
    let page = page.await;
    assert!(page.contains("Next runs") && page.contains("class=\"state queued\""), "{page}");
    assert!(house.get("/schedules").await.text.contains("/schedules/every%20second"));
    assert_eq!(house.get("/schedules/none").await.status, 404);
}

/// Runs of a pause are left out for it, also after it is over; a job by hand is among the runs, and called so.
#[tokio::test]
async fn a_schedule_tells_its_pauses_and_what_was_asked_for() {
    let house = House::with(Settings::default()).await;
    let body = |paused: bool| json!({"cron": "* * * * * *", "overlap": "queue", "missed": {"all": 100}, "paused": paused, "job": {"kind": "tick"}});
    let put = async |paused| assert_eq!(house.put("/v1/schedules/s", body(paused)).await.status, 200);
    let shows = async |what: &str, text: &str| {
        eventually(what, async || {
            Some(house.get("/schedules/s").await.text).filter(|page| page.contains(text))
        })
        .await
    };
    put(false).await;
    shows("it has run", "class=\"state queued\"").await;
    put(true).await;
    let paused = shows("a run was left out", "left out: the schedule was paused").await;
    assert!(paused.contains("None while it is paused."), "{paused}");
    let run = house.post("/v1/schedules/s/run", json!({})).await;
    assert_eq!(run.status, 201, "{}", run.text);
    let job = run.json()["job_id"].as_str().unwrap().to_owned();
    let page = house.get("/schedules/s").await.text;
    assert!(page.contains("by hand") && page.contains(&format!("/jobs/{job}")), "{page}");
    put(false).await;
    let page = house.get("/schedules/s").await.text;
    assert!(page.contains("left out: the schedule was paused"), "it is remembered: {page}");
}
