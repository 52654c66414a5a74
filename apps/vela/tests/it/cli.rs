//! The command line, as an operator uses it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use windlass_standins::NewListing;

use crate::scene::Scene;

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A shop that is here already, with a hat and a cap in two sizes.
async fn scene() -> (Scene, windlass_testkit::program::Program, Vec<u64>) {
    let scene = Scene::new().await;
    let all = scene.all().await;
    let tokens = scene.etsy.add_shop(7, 5_007);
    let ids = vec![
        scene.etsy.add_listing(7, NewListing::new("Hat")),
        scene.etsy.add_listing(7, NewListing::new("Cap, \"red\"").sizes(&["S", "M"])),
    ];
    scene.connect_with(7, &tokens).await;
    scene.until(7, "up_to_date").await;
    (scene, all, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn shops_are_shown_and_tasks_asked_for() {
    let (scene, _all, _) = scene().await;
    let shops = text(&scene.run(&["vela", "shops"]).await);
    assert!(shops.contains("Shop7") && shops.contains("up_to_date") && shops.contains("2/2"), "{shops}");
    let shop = text(&scene.run(&["vela", "shop", "7"]).await);
    assert!(shop.contains("listings      2") && shop.contains("every         1d"), "{shop}");
    let shops = text(&scene.run(&["--json", "vela", "shops"]).await);
    let shops: Vec<Value> = shops.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (shops.len(), &shops[0]["shop_id"], &shops[0]["status"]),
        (1, &json!(7), &json!("up_to_date"))
    );
    let asked: Value =
        serde_json::from_str(&text(&scene.run(&["--json", "vela", "task", "forced_download", "7"]).await))
            .unwrap();
    assert_eq!((&asked["type"], &asked["was_there"]), (&json!("forced_download"), &json!(false)));
    let unknown = scene.run(&["vela", "shop", "9"]).await;
    assert_eq!(unknown.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("connect it with"), "{unknown:?}");
    assert_eq!(scene.run(&["vela", "task", "upload_changes", "9"]).await.status.code(), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_are_edited_exported_and_imported() {
    let (scene, _all, ids) = scene().await;
    let id = ids[0].to_string();
    let edited =
        text(&scene.run(&["vela", "edit", "7", &id, "title=New hat", "price=15.50", "tags=wool,red"]).await);
    assert!(edited.contains("will be sent"), "{edited}");
    let cap = ids[1].to_string();
    text(&scene.run(&["vela", "edit", "7", &cap, "quantity=3", "--variant", "Size=S"]).await);
    scene.settled(7).await;
    assert_eq!(scene.etsy.listing(ids[0]).unwrap()["tags"], json!(["wool", "red"]));
    assert_eq!(scene.etsy.listing(ids[1]).unwrap()["quantity"], 13);
    let refused = scene.run(&["vela", "edit", "7", &id, "price=cheap", "views=3"]).await;
    assert_eq!(refused.status.code(), Some(4));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("price must be a price") && said.contains("views"), "{said}");
    assert_eq!(scene.run(&["vela", "edit", "7", "5", "title=x"]).await.status.code(), Some(3));

    let exported = text(&scene.run(&["vela", "export", "7"]).await);
    assert_eq!(exported.lines().count(), 5, "{exported}");
    assert!(exported.contains("\"Cap, \"\"red\"\"\"") && exported.contains("Size=S"), "{exported}");
    let file = scene.folder.path().join("listings.csv");
    std::fs::write(&file, &exported).unwrap();
    let path = file.display().to_string();
    let same = text(&scene.run(&["vela", "import", "7", &path]).await);
    assert!(same.contains("0 changed, 4 as they were, 0 not taken"), "{same}");
    let changed =
        format!("listing_id,variant,title,price\n{id},,Bulk hat,\n{cap},Size=M,,30\n{cap},,,40\n5,,x,\n");
    std::fs::write(&file, changed).unwrap();
    let output = scene.run(&["vela", "import", "7", &path]).await;
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("2 changed, 0 as they were, 2 not taken"),
        "{output:?}"
    );
    scene.settled(7).await;
    assert_eq!(scene.etsy.listing(ids[0]).unwrap()["title"], "Bulk hat");
    let cap = scene.etsy.listing(ids[1]).unwrap();
    assert_eq!(cap["inventory"]["products"][1]["offerings"][0]["price"]["amount"], 3000);
    scene.clean();
}

/// Consent: the link is printed, and the address that the browser was sent to is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_shop_is_connected() {
    let scene = Scene::new().await;
    scene.etsy.add_shop(7, 5_007);
    scene.etsy.fill(7, 3, "active");
    scene.etsy.add_shop(8, 5_008);
    let connect = async |shop: &str, user: u64, wrong: bool| {
        let mut child = scene
            .command(&["vela", "connect", shop])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let link = loop {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "no link was printed");
            if let Ok(link) = url::Url::parse(line.trim()) {
                break link;
            }
        };
        let of = |name: &str| link.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
        assert_eq!(
            (of("code_challenge_method"), of("response_type")),
            ("S256".to_owned(), "code".to_owned())
        );
        let code = scene.etsy.code(user, &of("code_challenge"), &of("redirect_uri"));
        let state = if wrong { "other".to_owned() } else { of("state") };
        writeln!(child.stdin.take().unwrap(), "{}?code={code}&state={state}", of("redirect_uri")).unwrap();
        tokio::task::spawn_blocking(move || {
            let ended = child.wait_with_output().unwrap();
            let mut rest = String::new();
            std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
            (ended, rest)
        })
        .await
        .unwrap()
    };
    let (ended, _) = connect("7", 5_007, true).await;
    assert!(!ended.status.success());
    assert!(String::from_utf8_lossy(&ended.stderr).contains("use the newest link"), "{ended:?}");
    let (ended, _) = connect("7", 5_008, false).await;
    assert_eq!(ended.status.code(), Some(4), "another seller's consent: {ended:?}");
    let (ended, said) = connect("7", 5_007, false).await;
    assert!(ended.status.success() && said.contains("its first download is queued"), "{ended:?} {said}");
    let _all = scene.all().await;
    let status = scene.until(7, "up_to_date").await;
    assert_eq!(status["listings"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_said() {
    let mut scene = Scene::new().await;
    scene.env.remove("ETSY_KEYSTRING");
    let output = scene.run(&["vela", "all"]).await;
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("ETSY_KEYSTRING"), "{output:?}");
    scene.set("ETSY_KEYSTRING", "x");
    scene.set("VELA_LISTEN", "0.0.0.0:0");
    let output = scene.run(&["vela", "manager"]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("VELA_TOKEN"), "{said}");
    let help = text(&scene.run(&["vela", "--help"]).await);
    for word in ["ETSY_QUOTA_SCOPE", "VELA_LADDER_UPLOAD", "connect", "export", "It works on a store"] {
        assert!(help.contains(word), "{help}");
    }
}

/// The token of the REST side: asked of everybody, workers too; the page itself has no data.
#[tokio::test(flavor = "multi_thread")]
async fn the_door_asks_for_its_token() {
    let mut scene = Scene::new().await;
    scene.set("VELA_TOKEN", "a-long-word");
    let _manager = scene.manager().await;
    for path in ["/shops", "/tasks", "/shops/1/status", "/metrics"] {
        assert_eq!(scene.ask("GET", path, None).await.0, 401, "{path}");
    }
    for path in ["/vela", "/vela/page.js", "/vela/page.css", "/health", "/readyz"] {
        assert_eq!(scene.ask("GET", path, None).await.0, 200, "{path}");
    }
    scene.token = Some("a-long-word".to_owned());
    let _worker = scene.worker("w");
    scene.connect(1).await;
    scene.until(1, "up_to_date").await;
}

/// What is in order before anything runs, and what to do about what is not.
#[tokio::test(flavor = "multi_thread")]
async fn check_says_what_is_in_order() {
    let mut scene = Scene::new().await;
    let said = text(&scene.run(&["vela", "check"]).await);
    for line in
        ["✓ settings", "✓ store", "✓ door", "✓ Etsy", "✓ shops: 0 connected", "everything is in order"]
    {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(scene.asked("openapi-ping"), 1);
    let store = scene.env["VELA_STORE"].clone();
    scene.set("VELA_STORE", "sqlite:/proc/nowhere/vela.db");
    let said = text(&scene.run(&["vela", "check", "--store", &store]).await);
    assert!(said.contains("✓ store"), "--store says it: {said}");
    scene.set("ETSY_SHARED_SECRET", "canary");
    scene.set("VELA_LISTEN", "0.0.0.0:7719");
    let check = async |scene: &Scene, args: &[&str]| {
        let output = scene.run(&[&["--json", "vela", "check"], args].concat()).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(!format!("{output:?}").contains("canary"), "{output:?}");
        let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        move |what: &str| {
            let one = found.iter().find(|one| one["what"].as_str().unwrap().starts_with(what)).unwrap();
            one["to_do"].as_str().unwrap_or_default().to_owned()
        }
    };
    let to_do = check(&scene, &[]).await;
    assert!(to_do("store").contains("VELA_STORE") && to_do("door").contains("VELA_TOKEN"));
    let to_do = check(&scene, &["--store", &store]).await;
    assert!(to_do("Etsy").contains("ETSY_SHARED_SECRET") && to_do("Etsy").contains("Invalid API key"));
    scene.env.remove("ETSY_KEYSTRING");
    assert!(check(&scene, &[]).await("settings").contains("ETSY_KEYSTRING"));
}

/// What whoever watches a manager asks: `/readyz` and `/metrics`.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_says_how_it_does() {
    let scene = Scene::new().await;
    let _manager = scene.manager().await;
    scene.connect(1).await;
    scene.connect(2).await;
    let (status, ready) = scene.ask("GET", "/readyz", None).await;
    assert_eq!((status, &ready["status"]), (200, &json!("ready")));
    assert_eq!(scene.post("/get-task", json!({"worker_id": "w"})).await.0, 200);
    // A limit that Etsy tells of is counted against.
    scene.etsy.limit(5, 1_000, false);
    assert!(scene.run(&["vela", "check"]).await.status.success());
    let answer = scene.answer(scene.port, "GET", "/metrics", None).await;
    assert_eq!(answer.status(), 200);
    let counted = String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap();
    for line in [
        "vela_tasks{state=\"queued\"} 1\n",
        "vela_tasks{state=\"running\"} 1\n",
        "vela_tasks{state=\"failed\"} 0\n",
        "vela_handed_out_total{type=\"regular_download\"} 1\n",
        "vela_asked_in_vain_total 0\n",
        "vela_etsy_calls{scope=\"app\",window=\"day\"} 1\n",
        "vela_etsy_calls_max{scope=\"app\",window=\"day\"} 1000\n",
    ] {
        assert!(counted.contains(line), "{line}: {counted}");
    }
}
