//! Etsy's API against its stand-in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use windlass_outside::etsy::{AppKey, Call, Consent, Etsy, EtsyError, Place, Sort, Told, user_of};
use windlass_outside::safe_http::Limits;
use windlass_outside::secret::Secret;
use windlass_standins::{Answer, Etsy as StandIn, Fault, NewListing, TooMany};

use crate::common::{hasty, http, limits, url};

fn client_with(server: &StandIn, secret: &str, limits: Limits) -> Etsy {
    let key = AppKey { keystring: server.keystring(), shared_secret: Secret::new(secret.to_owned()) };
    Etsy::new(http(&[server.url()]), url(&server.url()), url(&server.token_url()), key, limits)
}

fn client(server: &StandIn) -> Etsy {
    client_with(server, &server.shared_secret(), limits())
}

fn token(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

fn place(state: &'static str, offset: u32) -> Place {
    Place { state, offset, sort: Sort::Newest }
}

fn ok(told: Told<Value>) -> Value {
    told.said.unwrap()
}

fn code(told: &Told<Value>) -> &'static str {
    told.said.as_ref().unwrap_err().code()
}

#[tokio::test]
async fn a_page_has_all_that_a_sync_needs() {
    let server = StandIn::start().await;
    let given = token(&server.add_shop(7, 12).access);
    server.fill(7, 130, "active");
    server.add_listing(7, NewListing::new("Hat").state("draft").sizes(&["S", "M"]));
    let etsy = client(&server);
    let first = ok(etsy.send(&Call::listings(7, place("active", 0)), &given).await);
    assert_eq!((first["count"].as_u64(), first["results"].as_array().unwrap().len()), (Some(130), 100));
    let second = ok(etsy.send(&Call::listings(7, place("active", 100)), &given).await);
    assert_eq!(second["results"].as_array().unwrap().len(), 30);
    let draft = ok(etsy.send(&Call::listings(7, place("draft", 0)), &given).await)["results"][0].clone();
    assert_eq!(draft["inventory"]["products"].as_array().unwrap().len(), 2);
    assert_eq!(draft["images"].as_array().unwrap().len(), 2);
    assert!(draft["translations"]["en-US"]["title"].is_string());
    assert_eq!(ok(etsy.send(&Call::me(), &given).await), json!({"user_id": 12, "shop_id": 7}));
    let beyond = etsy.send(&Call::listings(7, place("active", 12_100)), &given).await;
    assert!(beyond.said.unwrap_err().said().unwrap().contains("maximum offset"));
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn keys_and_tokens() {
    let server = StandIn::start().await;
    let given = server.add_shop(7, 12);
    let wrong = client_with(&server, "canary", limits()).send(&Call::shop(7), &token(&given.access)).await;
    assert_eq!(code(&wrong), "forbidden");
    let etsy = client(&server);
    assert_eq!(code(&etsy.send(&Call::shop(7), &token("12.other")).await), "unauthorized");
    let elsewhere = server.add_shop(8, 13);
    let other = etsy.send(&Call::sections(7), &token(&elsewhere.access)).await;
    assert_eq!(code(&other), "forbidden");
    let rotated = etsy.refresh(&token(&given.refresh)).await.unwrap();
    assert_eq!((user_of(&rotated.access), rotated.expires_in), (Some(12), 3600));
    assert!(etsy.send(&Call::shop(7), &rotated.access).await.said.is_ok());
    let twice = etsy.refresh(&token(&given.refresh)).await.unwrap_err();
    assert_eq!((twice.code(), twice.said()), ("revoked", Some("refresh_token is revoked")));
    server.lose_refresh(false);
    assert_eq!(etsy.refresh(&rotated.refresh).await.unwrap_err().code(), "upstream");
    let again = etsy.refresh(&rotated.refresh).await.unwrap();
    server.lose_refresh(true);
    assert_eq!(etsy.refresh(&again.refresh).await.unwrap_err().code(), "upstream");
    assert_eq!(etsy.refresh(&again.refresh).await.unwrap_err().code(), "revoked");
    server.change_password(12);
    assert_eq!(code(&etsy.send(&Call::shop(7), &again.access).await), "unauthorized");
}

#[tokio::test]
async fn a_consent_becomes_tokens() {
    let server = StandIn::start().await;
    server.add_shop(7, 12);
    let etsy = client(&server);
    let redirect = "https://shop.example/back";
    let consent = Consent::new(url(redirect), &[3; 64]);
    let key = AppKey { keystring: server.keystring(), shared_secret: token("") };
    let link = consent.link(&url("https://www.etsy.com/oauth/connect"), &key);
    let challenge = link.query_pairs().find(|(name, _)| name == "code_challenge").unwrap().1.into_owned();
    let given = server.code(12, &challenge, redirect);
    let back = url(&format!("{redirect}?code={given}&state={}", consent.state));
    let tokens = etsy.exchange(&consent, &consent.code(&back).unwrap()).await.unwrap();
    assert!(etsy.send(&Call::shop(7), &tokens.access).await.said.is_ok());
    let twice = etsy.exchange(&consent, &consent.code(&back).unwrap()).await;
    assert_eq!(twice.unwrap_err().code(), "revoked");
}

#[tokio::test]
async fn limits_are_told_in_many_ways() {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let clock = now.clone();
    let server = StandIn::start_by(Arc::new(move || clock.load(Ordering::SeqCst))).await;
    server.token_seconds(1_000_000);
    let given = token(&server.add_shop(7, 12).access);
    let etsy = client(&server);
    server.limit(2, 5, false);
    let shop = Call::shop(7);
    let told = etsy.send(&shop, &given).await.quota;
    assert_eq!((told.per_second, told.left_this_second), (Some(2), Some(1)));
    assert_eq!((told.per_day, told.left_today), (Some(5), Some(4)));
    server.quota_headers(true, true);
    assert_eq!(etsy.send(&shop, &given).await.quota.left_this_second, Some(0));
    for (how, expected) in [
        (TooMany::Told, "second_limit"),
        (TooMany::WithoutRetryAfter, "second_limit"),
        (TooMany::Bare, "second_limit"),
        (TooMany::Huge, "day_limit"),
    ] {
        server.too_many(how);
        assert_eq!(code(&etsy.send(&shop, &given).await), expected, "{how:?}");
    }
    server.too_many(TooMany::WithoutRetryAfter);
    for expected in [None, None, None, Some("day_limit")] {
        now.fetch_add(1_000, Ordering::SeqCst);
        let told = etsy.send(&shop, &given).await;
        assert_eq!(told.said.err().map(|error| error.code()), expected);
    }
    now.fetch_add(86_400_000, Ordering::SeqCst);
    assert!(etsy.send(&shop, &given).await.said.is_ok());
    assert_eq!((server.most_within(1_000, false), server.most_within(86_400_000, false)), (2, 5));
    server.quota_headers(false, false);
    assert_eq!(etsy.send(&shop, &given).await.quota.per_day, None);
}

#[tokio::test]
async fn inventories_are_replaced_whole() {
    let server = StandIn::start().await;
    let given = token(&server.add_shop(7, 12).access);
    let hat = server.add_listing(7, NewListing::new("Hat").sizes(&["S", "M"]));
    let etsy = client(&server);
    let had = ok(etsy.send(&Call::inventory(hat), &given).await);
    let back = etsy.send(&Call::put_inventory(hat, had.clone()), &given).await.said.unwrap_err();
    assert!(back.said().unwrap().contains("invalid keys"), "{back:?}");
    let product = json!({"sku": "x", "property_values": [],
        "offerings": [{"price": 3.5, "quantity": 2, "is_enabled": true, "readiness_state_id": 1}]});
    let put = json!({"products": [product], "price_on_property": [], "quantity_on_property": [],
        "sku_on_property": [], "readiness_state_on_property": []});
    let now = ok(etsy.send(&Call::put_inventory(hat, put), &given).await);
    assert_eq!(now["products"].as_array().unwrap().len(), 1);
    assert_ne!(now["products"][0]["product_id"], had["products"][0]["product_id"]);
    let lacking = json!({"products": [{"sku": "", "property_values": [], "offerings": [{"price": 3.5}]}]});
    assert_eq!(code(&etsy.send(&Call::put_inventory(hat, lacking), &given).await), "refused");
    let both = etsy.send(&Call::batch_inventory(&[hat, 4]), &given).await;
    assert_eq!(code(&both), "not_found", "one that is gone spoils all");
}

#[tokio::test]
async fn listings_change_by_forms() {
    let server = StandIn::start().await;
    let given = token(&server.add_shop(7, 12).access);
    let (hat, draft) =
        (server.fill(7, 1, "active")[0], server.add_listing(7, NewListing::new("Hat").state("draft")));
    let etsy = client(&server);
    let form = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let patch = |listing, pairs: &[(&str, &str)]| Call::patch(7, listing, form(pairs));
    let now = ok(etsy.send(&patch(hat, &[("title", "New"), ("tags", "a,b")]), &given).await);
    assert_eq!((&now["title"], &now["tags"]), (&json!("New"), &json!(["a", "b"])));
    let bad = etsy.send(&patch(hat, &[("title", "a & b & c")]), &given).await.said.unwrap_err();
    assert!(matches!(bad, EtsyError::Refused { status: 400, .. }));
    server.lie_about("materials");
    let lied = ok(etsy.send(&patch(hat, &[("materials", "gold")]), &given).await);
    assert_eq!(lied["materials"], json!(["wool"]));
    assert_eq!(server.fees(), 0);
    ok(etsy.send(&patch(draft, &[("state", "active")]), &given).await);
    assert_eq!(server.fees(), 1);
    assert_eq!(code(&etsy.send(&patch(4, &[("title", "x")]), &given).await), "not_found");
    let section = ok(etsy.send(&Call::create_section(7, "Hats"), &given).await);
    let sections = ok(etsy.send(&Call::sections(7), &given).await);
    assert_eq!(sections["results"][0]["shop_section_id"], section["shop_section_id"]);
    let found = ok(etsy.send(&Call::batch(&[hat, draft, 4]), &given).await);
    assert_eq!(found["results"].as_array().unwrap().len(), 2);
    assert_eq!(server.violations(), Vec::<String>::new());
}

/// Nothing that goes wrong is taken for an empty shop, and no secret is in what is said of it.
#[tokio::test]
async fn faults_have_names() {
    let server = StandIn::start().await;
    let given = token(&server.add_shop(7, 12).access);
    for (fault, code, transient) in [
        (Fault::Status(500, None), "upstream", true),
        (Fault::Status(503, Some("9")), "upstream", true),
        (Fault::CutHead, "cut", true),
        (Fault::CutBody { after: 20 }, "cut", true),
        (Fault::HoldHead, "timeout", true),
        (Fault::HoldBody { after: 20 }, "timeout", true),
        (Fault::Garbage, "malformed", true),
        (Fault::Answer(Answer::new(200, "text/html", "<html>")), "malformed", true),
        (Fault::Redirect(302, "https://evil.example/".into()), "refused", false),
    ] {
        server.faults.push(fault.clone());
        let etsy =
            client_with(&server, &server.shared_secret(), if code == "timeout" { hasty() } else { limits() });
        let error = etsy.send(&Call::shop(7), &given).await.said.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), (code, transient), "{fault:?}");
        assert!(!format!("{error} {etsy:?}").contains("canary"), "{error} {etsy:?}");
    }
}
