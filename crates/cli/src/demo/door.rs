//! The page of the demo: who takes part, how they do, and the switches of the outside.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Value, json as value};
use tokio::net::TcpListener;
use windlass_app::Stop;
use windlass_app::door::{Answered, Door, Page, Refusal, json};
use windlass_engine::world::World;

use super::crew::Crew;
use super::outside::Outside;
use super::scene::{Member, Scene};
use super::talk::Talk;

const PAGE: Page = Page {
    path: "/demo",
    html: include_str!("assets/page.html"),
    script: ("/demo/page.js", include_str!("assets/page.js")),
    style: ("/demo/page.css", include_str!("assets/page.css")),
};

#[derive(Clone)]
struct Room {
    scene: Arc<Scene>,
    crew: Arc<Crew>,
    outside: Arc<Outside>,
    talk: Arc<Talk>,
    port: u16,
}

/// Serves it until `stop`.
pub async fn serve(
    listener: TcpListener,
    scene: Arc<Scene>,
    crew: Arc<Crew>,
    outside: Arc<Outside>,
    world: Arc<dyn World>,
    stop: Stop,
) -> anyhow::Result<()> {
    let talk = Arc::new(Talk::with(scene.members.iter().map(|member| member.base.clone()))?);
    let port = listener.local_addr()?.port();
    let router = Router::new()
        .route("/demo/state", get(state))
        .route("/demo/providers/{name}/{way}", post(switch))
        .with_state(Room { scene, crew, outside, talk, port });
    Ok(Door::new(router, world).page(PAGE).serve(listener, stop.wait()).await?)
}

/// `GET /demo/state`
async fn state(State(room): State<Room>) -> Answered {
    let asked = room.scene.members.iter().enumerate().map(|(at, member)| worker(&room, at, member));
    let workers = futures::future::join_all(asked).await;
    let absent = room.scene.absent.iter().map(|(name, why)| value!({ "name": name, "why": why }));
    let providers = room
        .outside
        .ways()
        .iter()
        .map(|way| value!({ "name": way.name, "about": way.about, "open": way.relay.is_open() }));
    let tries = room.scene.tries(room.port).into_iter().map(|(what, command)| value!([what, command]));
    let answer = value!({
        "workers": workers,
        "absent": absent.collect::<Vec<_>>(),
        "providers": providers.collect::<Vec<_>>(),
        "tries": tries.collect::<Vec<_>>(),
    });
    Ok(json(StatusCode::OK, &answer))
}

/// `POST /demo/providers/{name}/{way}`
async fn switch(State(room): State<Room>, Path((name, way)): Path<(String, String)>) -> Answered {
    let found = room.outside.way(&name);
    let found =
        found.ok_or_else(|| Refusal::not_found("There is no such provider; GET /demo/state names them"))?;
    match way.as_str() {
        "on" => found.relay.switch(true),
        "off" => found.relay.switch(false),
        _ => return Err(Refusal::not_found("A provider is switched on or off")),
    }
    Ok(json(StatusCode::OK, &value!({ "name": found.name, "open": found.relay.is_open() })))
}

async fn worker(room: &Room, at: usize, member: &Member) -> Value {
    let (pid, starts) = room.crew.process(at);
    let facts = facts(&room.talk, member).await;
    value!({
        "name": member.name,
        "about": member.about,
        "link": member.link,
        "pid": pid,
        "starts": starts,
        "answers": facts.is_some(),
        "facts": facts.unwrap_or_default(),
    })
}

/// How somebody does, in figures with their names; nothing when they do not answer.
async fn facts(talk: &Talk, member: &Member) -> Option<Vec<(String, String)>> {
    let base = &member.base;
    let text = |name: &str, value: &Value| (name.to_owned(), value.as_u64().unwrap_or(0).to_string());
    Some(match member.name {
        "serve" => {
            let stats = talk.get(&format!("{base}/v1/stats")).await?;
            ["queued", "running", "workers_alive"]
                .iter()
                .map(|name| text(&name.replace('_', " "), &stats[name]))
                .collect()
        }
        "bitcoin-news" => {
            let feed = talk.get(&format!("{base}/api/bitcoin-news?limit=1")).await?;
            let newest = feed["articles"][0]["title"].as_str().unwrap_or("none yet").to_owned();
            vec![text("articles", &feed["totalArticles"]), ("newest".to_owned(), newest)]
        }
        "vela" => {
            let shops = talk.get(&format!("{base}/shops")).await?;
            let of = |shop: &Value| {
                let status = shop["status"].as_str().unwrap_or("unknown").replace('_', " ");
                (format!("shop {}", shop["shop_id"]), status)
            };
            shops["shops"].as_array().into_iter().flatten().map(of).collect()
        }
        "listener" => {
            let status = talk.get(&format!("{base}/status")).await?;
            let lanes = status["report"]["lanes"].as_array()?.clone();
            let sum = |of: fn(&Value) -> u64| lanes.iter().map(of).sum::<u64>().to_string();
            let lag = lanes.iter().filter_map(|lane| lane["lag"].as_f64()).fold(0.0, f64::max);
            vec![
                ("jobs made".to_owned(), sum(|lane| lane["live"]["jobs"].as_u64().unwrap_or(0))),
                ("waiting to be done again".to_owned(), sum(|lane| lane["waiting"].as_u64().unwrap_or(0))),
                ("behind by".to_owned(), format!("{lag:.1} s")),
            ]
        }
        "nurse-tour" => messages(talk, base).await?,
        _ => {
            let status = talk.get(&format!("{base}/queue-info/queue_status")).await?;
            let counts = status["counts"].as_object().or_else(|| status["summary"].as_object())?.clone();
            let ours = |name: &str| if name == "totalJobs" { "jobs".to_owned() } else { name.to_owned() };
            counts.iter().map(|(name, count)| text(&ours(name), count)).collect()
        }
    })
}

/// What Nurse Tour has done since it was started, by its own counts.
async fn messages(talk: &Talk, base: &str) -> Option<Vec<(String, String)>> {
    let health = talk.text(&format!("{base}/health")).await?;
    let metrics = talk.text(&format!("{base}/metrics")).await?;
    let count = |name: &str| {
        let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or("0").to_owned()
    };
    Some(vec![
        ("health".to_owned(), health),
        ("claimed".to_owned(), count("nurse_tour_claimed_total")),
        ("documented".to_owned(), count(r#"nurse_tour_attempts_total{outcome="completed"}"#)),
    ])
}
