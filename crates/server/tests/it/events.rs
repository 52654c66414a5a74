//! The stream of events.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use windlass_server::Settings;

use crate::house::House;

struct Stream(BufReader<TcpStream>);

/// An event as it came: its id, its name, its data.
#[derive(Debug, Clone, PartialEq)]
struct Came(String, String, Value);

impl Stream {
    async fn open(house: &House, last: Option<&str>) -> Self {
        Self::open_at(house, "/v1/events", last).await
    }

    async fn open_at(house: &House, path: &str, last: Option<&str>) -> Self {
        let mut opened = Self::begin(house, path, last).await;
        assert_eq!(opened.next().await.1, "hello");
        opened
    }

    /// A stream of which nothing was read but its head.
    async fn begin(house: &House, path: &str, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(house.addr).await.unwrap();
        let last = last.map_or(String::new(), |last| format!("last-event-id: {last}\r\n"));
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{last}\r\n", house.addr);
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut opened = Self(BufReader::new(stream));
        let mut line = opened.line().await;
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while !line.trim().is_empty() {
            line = opened.line().await;
        }
        opened
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        assert!(!line.is_empty(), "the stream ended");
        line
    }

    /// The next event. Lines of the chunked coding are neither fields nor empty data.
    async fn next(&mut self) -> Came {
        let (mut id, mut name) = (String::new(), String::new());
        loop {
            let line = self.line().await;
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.to_owned();
            } else if let Some(text) = line.strip_prefix("event: ") {
                name = text.to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                return Came(id, name, serde_json::from_str(text).unwrap());
            }
        }
    }
}

/// All listeners hear everything, in order, and one that comes back misses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_heard_and_resumed() {
    let house = House::open().await;
    let before = house.enqueue(json!({"kind": "k"})).await;
    let mut one = Stream::open(&house, None).await;
    let mut two = Stream::open(&house, None).await;
    let id = house.enqueue(json!({"kind": "k", "priority": 5})).await;
    house.claim("w").await;
    house
        .post("/v1/leases/settle", json!({"results": [{"job_id": id, "fence": 1, "outcome": "completed"}]}))
        .await;
    let mut heard = Vec::new();
    for expected in ["enqueued", "claimed", "completed"] {
        let came = one.next().await;
        assert_eq!((came.1.as_str(), &came.2["jobs"]), (expected, &json!([id])), "not {before}");
        assert_eq!(came.2["position"], came.0.as_str());
        assert_eq!(came, two.next().await);
        heard.push(came);
    }
    drop(one);
    let mut back = Stream::open(&house, Some(&heard[0].0)).await;
    assert_eq!(back.next().await, heard[1]);
    assert_eq!(back.next().await, heard[2]);
    let third = house.enqueue(json!({"kind": "k"})).await;
    assert_eq!(back.next().await.2["jobs"], json!([third]), "live after what was missed");
    let mut all = Stream::open(&house, Some("0-0")).await;
    assert_eq!(all.next().await.2["jobs"], json!([before]));
}

/// A listener that is far behind reads from the store what it could not keep.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_falls_behind_misses_nothing() {
    let house = House::open().await;
    let mut slow = Stream::open(&house, None).await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        let jobs = vec![json!({"kind": "k"}); 40];
        let reply = house.post("/v1/jobs/batch", json!({"jobs": jobs})).await.json();
        ids.push(reply["jobs"][0]["id"].clone());
    }
    for id in ids {
        let came = slow.next().await;
        assert_eq!((&came.2["jobs"][0], &came.2["count"]), (&id, &json!(40)));
    }
}

#[tokio::test]
async fn positions_are_checked_and_an_end_ends_streams() {
    let mut house = House::open().await;
    for bad in ["x", "1", "1-x", "-1-1", "99999999999999999999-1", "18446744073709551615-0"] {
        let reply = house.send("GET", "/v1/events", &[("last-event-id", bad)], "").await;
        assert_eq!((reply.status, reply.field().as_str()), (400, "last-event-id"), "{bad}");
    }
    let _listener = Stream::open(&house, None).await;
    house.close().await;
}

/// A position of another epoch: the first event of a stream is `reset`, with where to begin, and then comes all that is kept; a
/// page is refused with the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_of_another_epoch_is_answered_first() {
    const OTHER: &str = "deadbeef-3";
    let house = House::with(Settings::default()).await;
    let id = house.enqueue(json!({"kind": "k"})).await;
    let refused = house.get(&format!("/v1/events/page?after={OTHER}")).await;
    assert_eq!((refused.status, refused.code().as_str()), (410, "position_of_another_epoch"));
    let begin = refused.json()["error"]["details"]["begin"].clone();
    for (path, last) in [("/v1/events".to_owned(), Some(OTHER)), (format!("/v1/events?after={OTHER}"), None)]
    {
        let mut stream = Stream::begin(&house, &path, last).await;
        let reset = stream.next().await;
        assert_eq!((reset.1.as_str(), &reset.2["begin"]), ("reset", &begin));
        assert_eq!(begin, reset.0.as_str(), "whoever is cut off goes on from there");
        let kept = stream.next().await;
        assert_eq!((kept.1.as_str(), &kept.2["jobs"][0]), ("enqueued", &json!(id)));
    }
}

/// Whoever asks for ticks gets them, whether something happens or not.
#[tokio::test(flavor = "multi_thread")]
async fn ticks_come_between_events() {
    let house = House::open().await;
    let mut stream = Stream::open_at(&house, "/v1/events?ticks=1", None).await;
    house.enqueue(json!({"kind": "k"})).await;
    let mut heard = Vec::new();
    while !["enqueued", "tick"].iter().all(|name| heard.iter().any(|came: &Came| came.1 == *name)) {
        heard.push(stream.next().await);
    }
    let tick = heard.iter().find(|came| came.1 == "tick").unwrap();
    assert_eq!(tick.0, "", "a tick is no place to come back to");
    for ticks in ["0", "61", "x", "-1"] {
        assert_eq!(house.get(&format!("/v1/events?ticks={ticks}")).await.field(), "ticks");
    }
}
