//! The pages of the dashboard: who gets them, what is in them, and what never is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use windlass_engine::core::id::Kind;
use windlass_server::{Limits, Role, Sample, Secret, Settings, Token};
use windlass_testkit::eventually::eventually;

use crate::house::{House, TOKEN, send};

const PAGES: [&str; 8] =
    ["/", "/jobs", "/waiting", "/queues", "/budgets", "/schedules", "/workers", "/actions"];
const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml");

/// What attackers write where a name belongs.
const EVIL: [&str; 50] = [
    "<script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<body onload=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "javascript:alert(1)",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "\" autofocus onfocus=alert(1) x=\"",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "<!--<script>alert(1)</script>-->",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "<math><mi//xlink:href=\"data:x,<script>alert(1)</script>\">",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<input onfocus=alert(1) autofocus>",
    "<select onfocus=alert(1) autofocus>",
    "<keygen onfocus=alert(1) autofocus>",
    "<marquee onstart=alert(1)>",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<link rel=stylesheet href=//x>",
    "<meta http-equiv=refresh content=0;url=//x>",
    "<base href=//x>",
    "<form action=//x><input name=y>",
    "<style>*{background:url(//x)}</style>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "${alert(1)}",
    "{{constructor.constructor('alert(1)')()}}",
    "<% alert(1) %>",
    "`-alert(1)-`",
    "\\\"-alert(1)//",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<SCRIPT>alert(1)</SCRIPT>",
    "<script src=//x></script>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<template><script>alert(1)</script></template>",
    "<td background=javascript:alert(1)>",
    "</td></tr></table><script>alert(1)</script>",
    "../../etc/passwd?<script>",
    "\u{202e}<script>alert(1)</script>",
];

/// Fault 67: whatever a job, a queue, a budget, a schedule or a worker is
/// called, and whatever it says, is text on every page.
#[tokio::test]
async fn fault_67_pages_show_text_as_text() {
    let house = House::open().await;
    let jobs: Vec<_> = EVIL.iter().map(|evil| json!({"kind": evil, "queue": evil, "key": evil, "payload": {*evil: evil}, "meta": evil, "budgets": [evil], "retry": {"ladder": "none"}})).collect();
    let reply = house.post("/v1/jobs/batch", json!({"jobs": jobs})).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    for evil in EVIL {
        let name: String = evil.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(house.put(&format!("/v1/budgets/{name}"), json!({"slots": 1})).await.status, 200);
        let schedule = json!({"cron": "0 3 * * *", "job": {"kind": evil, "payload": evil}});
        assert_eq!(house.put(&format!("/v1/schedules/{name}"), schedule).await.status, 200);
    }
    let claim = json!({"worker": EVIL[0], "queues": &EVIL[..], "limit": 50});
    let leases = house.post("/v1/claim", claim).await.json();
    let mut pages: Vec<String> = PAGES.map(str::to_owned).to_vec();
    pages.extend([
        "/jobs?text=%3Cscript%3E&queue=%22%3E%3Cscript%3E".to_owned(),
        "/jobs?limit=200".to_owned(),
    ]);
    for (lease, evil) in leases["leases"].as_array().unwrap().iter().zip(EVIL) {
        let (id, fence) = (lease["job"]["id"].as_str().unwrap(), &lease["fence"]);
        house.put(&format!("/v1/jobs/{id}/steps/s"), json!({"fence": fence, "output": evil})).await;
        house.put(&format!("/v1/jobs/{id}/progress"), json!({"fence": fence, "progress": evil})).await;
        house.put(&format!("/v1/jobs/{id}/log"), json!({"fence": fence, "text": evil})).await;
        pages.push(format!("/jobs/{id}"));
    }
    let fail = |lease: &serde_json::Value| json!({"job_id": lease["job"]["id"], "fence": lease["fence"], "outcome": "failed", "error": format!("{0}\n{0}", lease["job"]["kind"].as_str().unwrap())});
    let results: Vec<_> = leases["leases"].as_array().unwrap().iter().take(25).map(fail).collect();
    assert_eq!(house.post("/v1/leases/settle", json!({"results": results})).await.status, 200);
    assert!(pages.len() > 50, "the jobs were claimed");
    for path in pages {
        let page = house.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        inert(&page.text, &path);
    }
    let listed = house.get("/jobs?limit=200").await.text;
    assert!(listed.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

/// Only elements and attributes that we write: every tag is one of ours, and
/// none carries a handler, a style or an address that runs.
fn inert(page: &str, path: &str) {
    const TAGS: [&str; 63] = [
        "!doctype",
        "html",
        "head",
        "meta",
        "title",
        "link",
        "script",
        "body",
        "a",
        "header",
        "svg",
        "circle",
        "path",
        "nav",
        "span",
        "button",
        "main",
        "output",
        "dialog",
        "h1",
        "h2",
        "small",
        "dl",
        "dt",
        "dd",
        "kbd",
        "form",
        "div",
        "section",
        "figure",
        "figcaption",
        "b",
        "i",
        "u",
        "rect",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "time",
        "p",
        "code",
        "pre",
        "input",
        "label",
        "select",
        "option",
        "textarea",
        "details",
        "summary",
        "progress",
        "ul",
        "li",
        "dfn",
        "abbr",
        "br",
        "hr",
        "em",
        "strong",
        "datalist",
        "wbr",
    ];
    for rest in page.split('<').skip(1) {
        let tag = rest.split('>').next().unwrap_or("");
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap_or("").to_ascii_lowercase();
        assert!(TAGS.contains(&name.as_str()), "{path}: <{tag}>");
        // Values are quoted and hold no raw quote, so what is outside of quotes is ours.
        let outside: String = tag.split('"').step_by(2).collect();
        assert!(!outside.contains(" on") && !outside.contains("style="), "{path}: <{tag}>");
        assert!(
            name != "script" || tag.starts_with('/') || tag.contains("src=\"/assets/"),
            "{path}: <{tag}>"
        );
        assert!(!tag.contains("href=\"javascript") && !tag.contains("href=\"//"), "{path}: <{tag}>");
    }
}

/// Fault 69: without a token nothing of the dashboard is seen; a browser is
/// led to the form, a program is told.
#[tokio::test]
async fn fault_69_pages_need_a_token() {
    let house = House::closed().await;
    let job = "/jobs/0198c0de-0000-7000-8000-000000000001";
    for path in PAGES.into_iter().chain([job, "/docs", "/nothing", "/v1/sample"]) {
        let program = send(house.addr, "GET", path, &[], b"").await;
        assert_eq!(program.status, 401, "{path}");
        let browser = send(house.addr, "GET", path, &[HTML], b"").await;
        assert_eq!(browser.status, 303, "{path}");
        assert!(browser.headers["location"].starts_with("/sign-in?next=%2F") && browser.text.is_empty());
        let part = send(house.addr, "GET", path, &[HTML, ("x-windlass-part", "1")], b"").await;
        assert_eq!(part.status, 401, "a page that is open learns that its session is over");
    }
    let form = send(house.addr, "GET", "/sign-in", &[HTML], b"").await;
    assert!(form.status == 200 && form.text.contains("name=\"token\"") && !form.text.contains("/queues"));
    for asset in form.text.split('"').filter(|text| text.starts_with("/assets/")) {
        let found = send(house.addr, "GET", asset, &[], b"").await;
        assert_eq!(found.status, 200, "{asset}");
        assert!(found.headers["cache-control"].contains("immutable"));
    }
    let other = send(house.addr, "GET", "/assets/0000000000000000/main.js", &[], b"").await;
    assert_eq!(other.status, 401, "only what is there is open");
}

/// Fault 68: signing in by the form, as a browser does it, and only so.
#[tokio::test]
async fn fault_68_the_form_signs_in() {
    let house = House::closed().await;
    let form = ("content-type", "application/x-www-form-urlencoded");
    let own = [form, ("origin", "null"), ("sec-fetch-site", "same-origin"), HTML];
    let post = async |headers: &[(&str, &str)], body: String| {
        send(house.addr, "POST", "/sign-in", headers, body.as_bytes()).await
    };
    let foreign = [form, ("origin", "null"), ("sec-fetch-site", "cross-site"), HTML];
    assert_eq!(post(&foreign, format!("token={TOKEN}")).await.status, 403);
    let wrong = post(&own, "next=%2Fjobs&token=wrong".to_owned()).await;
    assert_eq!((wrong.status, wrong.headers["location"].as_str()), (303, "/sign-in?refused=1"));
    let away = post(&own, format!("next=%2F%2Fevil.example&token={TOKEN}")).await;
    assert_eq!((away.status, away.headers["location"].as_str()), (303, "/"));
    let signed = post(&own, format!("next=%2Fjobs%3Fstate%3Dfailed&token={TOKEN}")).await;
    assert_eq!((signed.status, signed.headers["location"].as_str()), (303, "/jobs?state=failed"));
    let cookie = signed.headers["set-cookie"].split(';').next().unwrap().to_owned();
    for path in PAGES {
        let page = send(house.addr, "GET", path, &[HTML, ("cookie", &cookie)], b"").await;
        assert!(page.status == 200 && page.text.contains("Sign out") && !page.text.contains(TOKEN), "{path}");
    }
}

/// Whoever may only look gets no buttons; whoever may not look is told so.
#[tokio::test]
async fn roles_see_what_they_may() {
    let token = |name: &str, role| Token {
        name: name.to_owned(),
        hash: Secret::new(name).hash(),
        role,
        expires_at: None,
    };
    let house = House::with(Settings {
        token: Some(Secret::new(TOKEN)),
        tokens: vec![token("reader", Role::Read), token("worker", Role::Work(vec![]))],
        limits: Limits { refusal_ms: 1, ..Limits::default() },
        ..Settings::default()
    })
    .await;
    let id = house.enqueue(json!({"kind": "k"})).await;
    let job = format!("/jobs/{id}");
    for path in PAGES.into_iter().chain([job.as_str()]) {
        let ask = async |token: &str| {
            let bearer = format!("Bearer {token}");
            send(house.addr, "GET", path, &[HTML, ("authorization", &bearer)], b"").await
        };
        let seen = ask("reader").await;
        assert!(
            seen.status == 200 && !seen.text.contains("data-post") && !seen.text.contains("data-put"),
            "{path}"
        );
        let refused = ask("worker").await;
        assert!(refused.status == 403 && refused.text.contains("may not do that"), "{path}");
    }
    assert!(house.get(&job).await.text.contains("data-post"), "an admin has buttons");
}

/// The inner part of a page is what the whole page holds; mistakes are pages, too.
#[tokio::test]
async fn parts_and_refusals() {
    let house = House::open().await;
    house.enqueue(json!({"kind": "k"})).await;
    for path in PAGES {
        let part = house.send("GET", path, &[("x-windlass-part", "1")], "").await;
        assert!(part.text.starts_with("<main") && part.text.ends_with("</main>"), "{path}");
        let whole = house.get(path).await;
        assert!(whole.text.starts_with("<!DOCTYPE html>") && whole.text.contains("<main"), "{path}");
    }
    for (path, status, says) in [
        ("/jobs/0198c0de-0000-7000-8000-000000000001", 404, "no such job"),
        ("/jobs/x", 400, "is not a UUID"),
        ("/jobs?state=asleep", 400, "none of queued"),
        ("/jobs?order=1", 400, "unknown field"),
        ("/nothing", 404, "no such path"),
    ] {
        let page = house.send("GET", path, &[HTML], "").await;
        assert_eq!(page.status, status, "{path}");
        assert!(
            page.text.starts_with("<!DOCTYPE html>") && page.text.contains(says),
            "{path}: {}",
            page.text
        );
        assert_eq!(
            house.get(path).await.headers["content-type"],
            "application/json",
            "{path}: a program gets JSON"
        );
    }
    let empty = house.get("/jobs?queue=&kind=&text=").await;
    assert_eq!(empty.status, 200, "a form sends its empty fields, too");
}

/// The sample is offered on an empty store, to an admin, once, and to nobody
/// when a worker knows its kinds.
#[tokio::test]
async fn the_sample_starts_once() {
    let started = Arc::new(AtomicUsize::new(0));
    let count = started.clone();
    let kinds = vec![Kind::new("sample.one").unwrap()];
    let house = House::dressed(Settings::default(), |server| {
        server.sample(Sample::new(kinds, move || {
            count.fetch_add(1, Ordering::Relaxed);
        }))
    })
    .await;
    assert!(house.get("/").await.text.contains("Start the sample"));
    let claim = json!({"worker": "w", "queues": ["q"], "kinds": ["sample.one"], "limit": 1});
    house.post("/v1/claim", claim).await;
    let refused = house.post("/v1/sample", json!({})).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "no_sample"));
    assert!(!house.get("/").await.text.contains("Start the sample"));
    house.store.forget_worker(windlass_engine::core::id::WorkerName::new("w").unwrap()).await.unwrap();
    assert_eq!(house.post("/v1/sample", json!({})).await.status, 204);
    assert_eq!(house.post("/v1/sample", json!({})).await.status, 409);
    assert_eq!(started.load(Ordering::Relaxed), 1);
    let without = House::with(Settings::default()).await;
    let page = without.get("/").await.text;
    assert!(page.contains("Nothing has happened here yet") && !page.contains("Start the sample"));
}

/// Ten thousand queues are no page of 27 MB.
#[tokio::test]
async fn many_queues_come_in_pages() {
    let house = House::open().await;
    let jobs: Vec<_> = (0..450).map(|at| json!({"kind": "k", "queue": format!("tenant-{at:03}")})).collect();
    assert_eq!(house.post("/v1/jobs/batch", json!({ "jobs": jobs })).await.status, 201);
    let rows = |page: &str| page.matches("data-row").count();
    let first = house.get("/queues").await.text;
    assert_eq!(rows(&first), 200);
    assert!(first.contains("1 to 200 of 450 queues") && first.contains("/queues?after=tenant-199"));
    let last = house.get("/queues?after=tenant-399").await.text;
    assert_eq!(rows(&last), 50);
    assert!(last.contains("401 to 450 of 450 queues") && !last.contains("next →"));
}

/// So do budgets, schedules and workers; and a link to one of them leads to it, wherever it stands.
#[tokio::test]
async fn many_of_anything_come_in_pages() {
    let house = House::open().await;
    for at in 0..205 {
        let path = |what: &str| format!("/v1/{what}/tenant-{at:03}");
        let (budget, schedule) = (path("budgets"), path("schedules"));
        let cron = json!({"cron": "0 3 1 1 *", "job": {"kind": "k"}});
        let worker = json!({"worker": format!("tenant-{at:03}"), "queues": ["none"], "limit": 1});
        let made = tokio::join!(
            house.put(&budget, json!({"slots": 1})),
            house.put(&schedule, cron),
            house.post("/v1/claim", worker)
        );
        assert_eq!([made.0.status, made.1.status, made.2.status], [200; 3]);
    }
    let rows = |page: &str| page.matches(" data-row").count();
    for what in ["budgets", "schedules", "workers"] {
        let first = eventually("all are there", || async {
            let page = house.get(&format!("/{what}")).await.text;
            page.contains(&format!("1 to 200 of 205 {what}")).then_some(page)
        })
        .await;
        assert_eq!(rows(&first), 200, "{what}");
        assert!(first.contains(&format!("/{what}?after=tenant-199")), "{what}");
        let last = house.get(&format!("/{what}?after=tenant-199")).await.text;
        assert_eq!(rows(&last), 5, "{what}");
        assert!(last.contains(&format!("201 to 205 of 205 {what}")) && !last.contains("next →"), "{what}");
        let one = house.get(&format!("/{what}?name=tenant-202")).await.text;
        assert_eq!(rows(&one), 3, "{what}");
        assert_eq!(house.get(&format!("/{what}?name=x&after=y")).await.status, 400);
    }
    let id = house.enqueue(json!({"kind": "k", "budgets": ["tenant-202"]})).await;
    let page = house.get(&format!("/jobs/{id}")).await.text;
    assert!(page.contains("/budgets?name=tenant-202#b-tenant-202"), "{page}");
}

/// The overview names the busiest of them, and leads to the others.
#[tokio::test]
async fn the_overview_shows_the_busiest_of_many() {
    let house = House::with(Settings::default()).await;
    let job = |at: usize| json!({"kind": "k", "queue": format!("tenant-{at:03}")});
    let jobs: Vec<_> = (0..450).map(job).chain([job(444), job(444), job(7)]).collect();
    assert_eq!(house.post("/v1/jobs/batch", json!({ "jobs": jobs })).await.status, 201);
    for at in 0..30 {
        assert_eq!(house.put(&format!("/v1/budgets/b-{at:02}"), json!({"per_day": 5})).await.status, 200);
    }
    let busy = json!({"kind": "k", "queue": "busy", "budgets": ["b-29"]});
    house.enqueue(busy).await;
    let claim = json!({"worker": "w", "queues": ["busy"], "limit": 1, "wait_ms": 5000});
    assert_eq!(house.post("/v1/claim", claim).await.status, 200);
    let page = house.get("/").await.text;
    let rows = |id: &str| page.matches(&format!("<tr id=\"{id}-")).count();
    assert_eq!((rows("q"), rows("b")), (20, 20));
    for shown in ["q-busy", "q-tenant-444", "q-tenant-007", "b-b-29"] {
        assert!(page.contains(&format!("<tr id=\"{shown}\"")), "{shown}");
    }
    assert!(page.contains("<a href=\"/queues\">431 more</a>"), "{page}");
    assert!(page.contains("<a href=\"/budgets\">10 more</a>"));
}

/// The filters above the list of jobs offer the names that are known, to readers as well.
#[tokio::test]
async fn filters_suggest_kinds_and_queues() {
    let house = House::with(Settings::default()).await;
    house
        .enqueue(json!({"kind": "resize", "queue": "pictures", "payload": {"canary": 1}, "delay": "1h"}))
        .await;
    let page = house.get("/jobs").await.text;
    let list = |id: &str| {
        page.split(&format!("<datalist id=\"{id}\">")).nth(1).unwrap().split("</datalist>").next().unwrap()
    };
    assert!(list("known-kinds").contains("value=\"resize\"") && !list("known-kinds").contains("canary"));
    assert!(list("known-queues").contains("value=\"pictures\""));
    for (name, id) in [("kind", "known-kinds"), ("queue", "known-queues")] {
        let field = page.split("<input").find(|field| field.contains(&format!(" name=\"{name}\""))).unwrap();
        assert!(field.contains(&format!("list=\"{id}\"")), "{field}");
    }
}
