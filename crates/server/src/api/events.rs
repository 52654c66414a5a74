//! The stream of events (server-sent events), from now on or from where a
//! listener left off.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::{Event, Position};
use windlass_engine::core::store::EVENTS_MAX;
use windlass_report::schema::{AnyJson, PositionText};

use super::Api;
use crate::answer::{Answered, Refusal, ok, with_type};
use crate::ask::Ask;
use crate::feed::{Listener, Told, frame};

/// A sign of life when nothing happens.
const HEARTBEAT_MS: u64 = 15_000;
/// How often a tick comes at least while nothing happens: a page that is looked at then costs the store next to nothing.
const QUIET_TICK_MS: u64 = 600_000;
/// How long a listener whose connection broke waits before it comes again.
const COME_BACK_MS: u64 = 1_000;
const PARAMETERS: [&str; 2] = ["after", "ticks"];

/// `GET /v1/events`
pub(crate) async fn stream(ask: Ask) -> Answered {
    let wanted = wanted_position(&ask)?;
    let ticks_ms = wanted_ticks(&ask)?;
    let Some(listener) = ask.api.feed.listen() else {
        return Err(Refusal::busy("too many listeners at once; come again later"));
    };
    // First a place among the listeners, then the position: nothing falls between.
    let at = match wanted {
        Some(position) => position,
        None => ask.api.store.events_end().await?,
    };
    let stop = ask.api.stop.subscribe();
    let tick = ticks_ms.map(|every_ms| Tick::new(every_ms, &ask.api));
    let listening =
        Listening { api: ask.api, listener, stop, at, tick, behind: true, greeted: false, ready: Vec::new() };
    let frames = stream::unfold(listening, |mut listening| async move {
        let frame = listening.next().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(frame), listening))
    });
    let mut response = with_type(StatusCode::OK, "text/event-stream", Body::from_stream(frames));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// What happened.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Events")]
pub(crate) struct EventsView {
    /// Ask with this for what follows.
    position: String,
    #[schemars(with = "Vec<AnyJson>")]
    events: Vec<Event>,
    /// Events after the position asked with were pruned before anybody asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
}

/// Where events are missing.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Gap {
    /// The last that was told.
    #[schemars(with = "PositionText")]
    after: String,
    /// The first that is still there.
    #[schemars(with = "PositionText")]
    before: String,
    /// How many are missing.
    count: u64,
}

impl Gap {
    /// What is missing between a position that somebody goes on from and the first event that there is.
    fn between(after: Position, first: Option<&Event>) -> Option<Self> {
        let before = first?.position;
        let count = before.place.checked_sub(after.place + 1).filter(|count| *count > 0)?;
        let said = after != Position::default();
        said.then(|| Self { after: after.to_string(), before: before.to_string(), count })
    }
}

/// `GET /v1/events/page`
pub(crate) async fn page(ask: Ask) -> Answered {
    let query = ask.query(&PARAMETERS[..1], &[])?;
    let Some((_, after)) = query.first() else {
        let position = ask.api.store.events_end().await?.to_string();
        return ok(&EventsView { position, events: Vec::new(), gap: None });
    };
    let after = position_of(after)?;
    let events = ask.api.store.events(Some(after), EVENTS_MAX).await?;
    let position = events.last().map_or(after, |event| event.position).to_string();
    let gap = Gap::between(after, events.first());
    ok(&EventsView { position, events, gap })
}

/// Where the listener left off. `EventSource` sends a header; whoever begins
/// anew with a page that was made at a position can say `after`.
fn wanted_position(ask: &Ask) -> Result<Option<Position>, Refusal> {
    let query = ask.query(&PARAMETERS, &[])?;
    let header = ask.headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let after = query.iter().find(|(name, _)| name == "after").map(|(_, value)| value.as_str());
    let text = header.or(after);
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    position_of(text).map(Some)
}

fn position_of(text: &str) -> Result<Position, Refusal> {
    text.parse().map_err(|_| bad_position())
}

/// How often a tick is wanted; nothing when none is.
fn wanted_ticks(ask: &Ask) -> Result<Option<u64>, Refusal> {
    let query = ask.query(&PARAMETERS, &[])?;
    let Some((_, text)) = query.iter().find(|(name, _)| name == "ticks") else { return Ok(None) };
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse::<u64>().ok().filter(|seconds| digits && (1..=60).contains(seconds));
    let seconds =
        seconds.ok_or_else(|| Refusal::field("ticks", "must be a number of seconds from 1 to 60"))?;
    Ok(Some(seconds * 1_000))
}

fn bad_position() -> Refusal {
    Refusal::field("last-event-id", "is not a position that this server gave")
}

struct Listening {
    api: Arc<Api>,
    listener: Listener,
    stop: watch::Receiver<bool>,
    at: Position,
    tick: Option<Tick>,
    /// There may be events in the store that were not heard live.
    behind: bool,
    /// It was told the first thing: `hello`, or `reset` where its position is of another epoch.
    greeted: bool,
    /// Frames to be sent, the next one last.
    ready: Vec<Bytes>,
}

/// A beat for those who want one, whatever happens in between; seldom while nothing happens at all.
struct Tick {
    every_ms: u64,
    next_ms: u64,
    /// When the last was sent.
    sent_ms: u64,
    /// Who worked then.
    crews: u64,
}

impl Tick {
    fn new(every_ms: u64, api: &Api) -> Self {
        let now_ms = api.world.boot_ms();
        Self { every_ms, next_ms: now_ms + every_ms, sent_ms: now_ms, crews: api.feed.crews() }
    }

    /// Whether there is one now; otherwise it is looked for later.
    fn is_due(&mut self, api: &Api) -> bool {
        let (now_ms, crews) = (api.world.boot_ms(), api.feed.crews());
        let nothing_new = api.feed.is_quiet() && crews == self.crews && now_ms < self.sent_ms + QUIET_TICK_MS;
        if nothing_new {
            self.next_ms = now_ms + self.every_ms.max(HEARTBEAT_MS);
        } else {
            (self.sent_ms, self.next_ms, self.crews) = (now_ms, now_ms + self.every_ms, crews);
        }
        !nothing_new
    }
}

impl Listening {
    /// The next frame; nothing ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop() {
                return Some(frame);
            }
            if *self.stop.borrow() {
                return None;
            }
            if self.behind {
                self.catch_up().await?;
                continue;
            }
            let now_ms = self.api.world.boot_ms();
            let beat_ms = self.tick.as_ref().map_or(HEARTBEAT_MS, |tick| tick.next_ms.saturating_sub(now_ms));
            tokio::select! {
                told = self.listener.live.recv() => match told {
                    Ok(Told::Event { position, frame }) if position.follows(self.at) => {
                        self.at = position;
                        self.hurry();
                        return Some(frame);
                    }
                    // Heard before; or something is missing in between, or the store is in another epoch.
                    Ok(Told::Event { position, .. }) => self.behind = !position.is_behind(self.at),
                    Ok(Told::Begun) | Err(RecvError::Lagged(_)) => self.behind = true,
                    Err(RecvError::Closed) => return None,
                },
                _ = self.stop.changed() => return None,
                () = self.api.world.sleep_ms(beat_ms) => return Some(self.beat()),
            }
        }
    }

    fn beat(&mut self) -> Bytes {
        let ticks = self.tick.as_mut().is_some_and(|tick| tick.is_due(&self.api));
        if ticks {
            Bytes::from_static(b"event: tick\ndata: {}\n\n")
        } else {
            Bytes::from_static(b": beat\n\n")
        }
    }

    /// Something happens again: ticks come as often as they are wanted.
    fn hurry(&mut self) {
        if let Some(tick) = &mut self.tick {
            tick.next_ms = tick.next_ms.min(self.api.world.boot_ms() + tick.every_ms);
        }
    }

    /// Reads from the store what was missed. An error ends the stream: the
    /// listener comes back and says where it was.
    async fn catch_up(&mut self) -> Option<()> {
        let events = match self.api.store.events(Some(self.at), EVENTS_MAX).await {
            Ok(events) => events,
            Err(StoreError::AnotherEpoch(begin)) => {
                let reset = told(begin, "reset", &json!({ "begin": begin.to_string() }));
                self.ready = vec![self.first(reset)];
                self.at = begin;
                return Some(());
            }
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "a stream of events ended");
                return None;
            }
        };
        // A page may be short because its bytes are bounded: only an empty one is the end.
        self.behind = !events.is_empty();
        let hello = (!self.greeted).then(|| told(self.at, "hello", &json!({})));
        let hello = hello.map(|hello| self.first(hello));
        let gap = Gap::between(self.at, events.first()).map(|gap| told(self.at, "gap", &gap));
        if let Some(last) = events.last() {
            self.at = last.position;
        }
        self.ready = events.iter().rev().map(frame).chain(gap).chain(hello).collect();
        Some(())
    }

    /// What a listener is told first also says when to come back.
    fn first(&mut self, told: Bytes) -> Bytes {
        match std::mem::replace(&mut self.greeted, true) {
            true => told,
            false => [format!("retry: {COME_BACK_MS}\n").as_bytes(), &told].concat().into(),
        }
    }
}

/// What a listener is told beside events: that its position is of another epoch, or that events are missing.
fn told(at: Position, what: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("id: {at}\nevent: {what}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use windlass_engine::core::id::{JobId, Kind, QueueName};
    use windlass_engine::core::job::{JobSpec, NewJob, Start};
    use windlass_engine::core::json::Json;
    use windlass_engine::core::memory::MemoryStore;
    use windlass_engine::core::store::Store;
    use windlass_engine::world::RealWorld;

    use super::*;
    use crate::feed;
    use crate::settings::Settings;

    fn job() -> NewJob {
        let spec = JobSpec::new(Kind::new("k").unwrap(), QueueName::new("q").unwrap(), Json::null());
        NewJob { id: JobId(uuid::Uuid::from_u128(1)), spec, start: Start::Now }
    }

    fn listening(api: &Arc<Api>, at: Position) -> Listening {
        let listener = api.feed.listen().unwrap();
        let stop = api.stop.subscribe();
        Listening {
            api: api.clone(),
            listener,
            stop,
            at,
            tick: None,
            behind: true,
            greeted: true,
            ready: Vec::new(),
        }
    }

    /// A listener that came while the server started hears what happened before its feed began to read.
    #[tokio::test]
    async fn nothing_falls_between_a_listener_and_the_beginning_of_the_feed() {
        let world = Arc::new(RealWorld::new());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let api = Arc::new(Api::new(store.clone(), Settings::default(), world));
        let mut listening = listening(&api, store.events_end().await.unwrap());
        listening.catch_up().await.unwrap();
        assert!(!listening.behind && listening.ready.is_empty());
        store.enqueue(vec![job()]).await.unwrap();
        feed::read_on(&api, &mut None).await.unwrap();
        let frame = listening.next().await.unwrap();
        assert!(std::str::from_utf8(&frame).unwrap().contains("event: enqueued"), "{frame:?}");
    }

    async fn told(listening: &mut Listening) -> String {
        let frame = listening.next().await.unwrap();
        String::from_utf8(frame.to_vec()).unwrap()
    }

    /// A listener whose position is of another epoch is told so first, and then hears all that is kept; also one that
    /// was there when the store was restored.
    #[tokio::test]
    async fn a_position_of_another_epoch_begins_with_a_reset() {
        let world = Arc::new(RealWorld::new());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let api = Arc::new(Api::new(store.clone(), Settings::default(), world.clone()));
        let mut listening = listening(&api, store.events_end().await.unwrap());
        store.enqueue(vec![job()]).await.unwrap();
        let mut last = None;
        feed::read_on(&api, &mut last).await.unwrap();
        assert!(told(&mut listening).await.contains("event: enqueued"));
        store.book().turn(
            uuid::Uuid::from_u128(7 << 96),
            1,
            true,
            windlass_engine::core::time::Time::from_ms(1),
        );
        feed::read_on(&api, &mut last).await.unwrap();
        assert_eq!(
            told(&mut listening).await,
            "id: 00000007-0\nevent: reset\ndata: {\"begin\":\"00000007-0\"}\n\n"
        );
        let again = told(&mut listening).await;
        assert!(again.starts_with("id: 00000007-1\nevent: enqueued"), "{again}");
    }

    /// Whoever comes back after events were pruned is told how many are missing.
    #[tokio::test]
    async fn pruned_events_are_told_as_a_gap() {
        let world = Arc::new(RealWorld::new());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let api = Arc::new(Api::new(store.clone(), Settings::default(), world));
        for n in 1..=5 {
            let id = JobId(uuid::Uuid::from_u128(n));
            store.enqueue(vec![NewJob { id, ..job() }]).await.unwrap();
        }
        store.book().keep_events(2);
        let mut listening = listening(&api, Position { epoch: 0, place: 1 });
        let gap = "id: 00000000-1\nevent: gap\ndata: {\"after\":\"00000000-1\",\"before\":\"00000000-4\",\"count\":2}\n\n";
        assert_eq!(told(&mut listening).await, gap);
        assert!(told(&mut listening).await.starts_with("id: 00000000-4\nevent: enqueued"));
    }
}
