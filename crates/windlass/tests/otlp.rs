//! A trace from an enqueue to the steps of its attempt, as a collector gets it over OTLP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use tracing::Instrument;
use tracing_subscriber::prelude::*;
use windlass::prelude::*;

#[derive(Serialize, Deserialize)]
struct Greet(String);

impl Job for Greet {
    const KIND: &'static str = "greet";
    type Output = ();
}

async fn greet(Greet(name): Greet, context: Context) -> Result<(), Failure> {
    context.step("spell", || async move { Ok(name.len()) }).await?;
    Ok(())
}

/// Where a program is told which collector it has.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// A program that has a collector, with the lines of the guide.
fn program() -> Result<(), Box<dyn std::error::Error>> {
    let (layer, _sending) = windlass::otlp::layer("my-worker")?; // OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4318
    tracing_subscriber::registry().with(layer).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let store: std::sync::Arc<dyn Store> =
            windlass::sqlite::SqliteStore::open(folder.path().join("traces.db")).await.unwrap();
        let client = Client::new(store.clone());
        let request = tracing::info_span!("request");
        async { client.enqueue(Greet("Ada".into())).await }.instrument(request).await.unwrap();
        Worker::new(store).handle(greet).run_until_idle().await.unwrap();
    });
    drop(runtime);
    Ok(())
}

/// This test is started again as the program, so that its environment is its own.
#[test]
fn an_attempt_is_part_of_the_trace_of_its_enqueue() {
    if std::env::var_os(ENDPOINT).is_some() {
        return program().unwrap();
    }
    let (address, bodies) = collector();
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "an_attempt_is_part_of_the_trace_of_its_enqueue"]).env(ENDPOINT, address);
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let spans: Vec<Span> = bodies.try_iter().flat_map(|body| spans(&body)).collect();
    let find = |name: &str| {
        let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "{name}: {spans:?}");
        found[0]
    };
    let (request, attempt, step) = (find("request"), find("attempt"), find("step"));
    assert_eq!((attempt.parent.clone(), attempt.trace.clone()), (request.id.clone(), request.trace.clone()));
    assert_eq!((step.parent.clone(), step.trace.clone()), (attempt.id.clone(), request.trace.clone()));
}

/// What the guide shows is what was run here.
#[test]
fn the_lines_of_the_guide() {
    let page = include_str!("../../../docs/guide/workers.md");
    let (_, rest) = page.split_once(&format!("<!-- run: {} -->\n```rust,ignore\n", "collector")).unwrap();
    let lines = rest.split("```").next().unwrap();
    let indented: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    assert!(include_str!("otlp.rs").contains(&indented), "{indented}");
}

/// Takes what is sent to `/v1/traces`, and answers as a collector does.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = text.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            reader.get_mut().write_all(answer).unwrap();
            sender.send(body).unwrap();
        }
    });
    (address, bodies)
}

#[derive(Debug)]
struct Span {
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
}

/// The spans of a request: `resource_spans` (1), `scope_spans` (2), `spans` (2).
fn spans(body: &[u8]) -> Vec<Span> {
    let of = |message: &[u8], number: u64| -> Vec<Vec<u8>> {
        fields(message).into_iter().filter(|(at, _)| *at == number).map(|(_, value)| value).collect()
    };
    let first = |message: &[u8], number: u64| of(message, number).into_iter().next().unwrap_or_default();
    let scopes = of(body, 1).into_iter().flat_map(|resource| of(&resource, 2));
    let spans = scopes.flat_map(|scope| of(&scope, 2));
    spans
        .map(|span| Span {
            trace: first(&span, 1),
            id: first(&span, 2),
            parent: first(&span, 4),
            name: String::from_utf8(first(&span, 5)).unwrap(),
        })
        .collect()
}

/// The fields of a protobuf message that hold bytes, by their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        match tag & 7 {
            0 => drop(varint(&mut message)),
            1 => message = &message[8..],
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                let (value, rest) = message.split_at(length);
                found.push((tag >> 3, value.to_vec()));
                message = rest;
            }
            5 => message = &message[4..],
            other => panic!("wire type {other}"),
        }
    }
    found
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = message.split_first().unwrap();
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
