//! OpenAI's client against its stand-in.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use serde_json::json;
use windlass_outside::openai::{Audio, Chat, Message, OpenAi, OpenAiError, Schema, Transcription};
use windlass_outside::retry_after::RetryAfter;
use windlass_outside::safe_http::Limits;
use windlass_outside::secret::Secret;
use windlass_standins::{Fault, OpenAi as StandIn, Reply};

use crate::common::{hasty, http, limits, url};

fn client(server: &StandIn, limits: Limits) -> OpenAi {
    OpenAi::new(http(&[server.url()]), url(&server.url()), Secret::new(server.key()), limits).unwrap()
}

fn question() -> Chat {
    Chat { temperature: Some(0.3), ..Chat::new("gpt-4o-mini", Message::user("Where was it?")) }
}

fn with_schema() -> Chat {
    let schema = json!({
        "type": "object",
        "properties": {
            "patient": {"type": ["string", "null"]},
            "alerts": {"type": "array", "items": {"type": "string", "enum": ["low", "high"]}},
        },
        "required": ["patient", "alerts"],
        "additionalProperties": false,
    });
    Chat { schema: Some(Schema { name: "note".to_owned(), schema }), ..question() }
}

#[tokio::test]
async fn a_question_is_answered() {
    let server = StandIn::start().await;
    let answer = client(&server, limits()).chat(&question()).await.unwrap();
    assert!(answer.content.expose().starts_with("An answer to "));
    assert_eq!(answer.model.as_deref(), Some("gpt-4o-mini-2026-01-01"));
    assert_eq!(answer.request_id.as_deref(), Some("req_standin"));
    let asked: serde_json::Value = serde_json::from_slice(&server.asked()[0].body).unwrap();
    let messages = json!([{"role": "user", "content": "Where was it?"}]);
    assert_eq!(asked, json!({"model": "gpt-4o-mini", "messages": messages, "temperature": 0.3}));
    assert_eq!(server.asked()[0].path, "/v1/chat/completions");
}

#[tokio::test]
async fn an_answer_in_the_form_of_a_schema() {
    let server = StandIn::start().await;
    let answer = client(&server, limits()).chat(&with_schema()).await.unwrap();
    let value: serde_json::Value = serde_json::from_str(answer.content.expose()).unwrap();
    assert_eq!(value["alerts"], json!(["low"]));
    let mut open = with_schema();
    open.schema.as_mut().unwrap().schema["additionalProperties"] = json!(true);
    let error = client(&server, limits()).chat(&open).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), ("permanent", false));
}

#[tokio::test]
async fn answers_that_are_none() {
    let server = StandIn::start().await;
    let replies = [
        (Reply::Refusal("I cannot help with canary".to_owned()), "refusal", false),
        (Reply::Truncated("{\"patient\": \"canary".to_owned()), "truncated", false),
        (Reply::Filtered, "filtered", false),
        (Reply::Text("canary, in prose".to_owned()), "malformed", true),
    ];
    for (reply, code, transient) in replies {
        server.reply(reply);
        let error = client(&server, limits()).chat(&with_schema()).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), (code, transient));
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}

#[tokio::test]
async fn errors_are_told_apart() {
    let server = StandIn::start().await;
    let error = |status, kind: &str, code: Option<&str>| Fault::Answer(StandIn::error(status, kind, code));
    let slow_down = StandIn::error(429, "requests", Some("rate_limit_exceeded")).with("retry-after", "7");
    for (fault, code, transient) in [
        (error(401, "invalid_request_error", Some("invalid_api_key")), "configuration", false),
        (error(403, "permission", None), "configuration", false),
        (error(429, "insufficient_quota", Some("insufficient_quota")), "insufficient_quota", false),
        (Fault::Answer(slow_down), "rate_limit", true),
        (error(400, "invalid_request_error", None), "permanent", false),
        (error(413, "server_error", None), "permanent", false),
        (error(500, "server_error", None), "upstream", true),
        (Fault::Status(503, Some("30")), "upstream", true),
        (Fault::Garbage, "malformed", true),
        (Fault::HoldHead, "timeout", true),
        (Fault::HoldBody { after: 10 }, "timeout", true),
        (Fault::CutBody { after: 10 }, "cut", true),
        (Fault::CutHead, "cut", true),
        (Fault::GzipBomb(100_000_000), "too_large", false),
        (Fault::Redirect(307, "https://example.com/".to_owned()), "bad_redirect", false),
    ] {
        server.faults.push(fault.clone());
        let limits = if code == "timeout" { hasty() } else { limits() };
        let error = client(&server, limits).chat(&question()).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), (code, transient), "{fault:?}");
        if code == "rate_limit" {
            assert_eq!(error.retry_after(), Some(RetryAfter::Delay(Duration::from_secs(7))));
        }
    }
    let wrong = Secret::new("sk-wrong".to_owned());
    let wrong = OpenAi::new(http(&[server.url()]), url(&server.url()), wrong, limits()).unwrap();
    assert_eq!(wrong.chat(&question()).await.unwrap_err().code(), "configuration");
}

const NOTE: Transcription<'_> = Transcription { model: "whisper-1", extension: "ogg", language: None };

#[tokio::test]
async fn sound_becomes_text() {
    let server = StandIn::start().await;
    let openai = client(&server, limits());
    let said = openai.transcribe(&NOTE, Audio::bytes(Bytes::from_static(b"OggS..."))).await.unwrap();
    assert!(said.text.expose().starts_with("A note of 7 bytes"));
    assert_eq!((said.language.as_deref(), said.seconds), (Some("german"), Some(3.5)));
    let turkish = Transcription { language: Some("tr"), ..NOTE };
    let said = openai.transcribe(&turkish, Audio::bytes(Bytes::from_static(b"OggS..."))).await.unwrap();
    assert_eq!(said.language.as_deref(), Some("tr"));
    let newer = Transcription { model: "gpt-4o-transcribe", ..NOTE };
    let said = openai.transcribe(&newer, Audio::bytes(Bytes::from_static(b"OggS..."))).await.unwrap();
    assert_eq!(said.language, None);
    let boundaries: Vec<_> =
        server.asked().iter().map(|ask| ask.header("content-type").unwrap().to_owned()).collect();
    assert_ne!(boundaries[0], boundaries[1], "each form has a boundary of its own");
}

#[tokio::test]
async fn sound_from_a_file_and_from_a_stream() {
    let server = StandIn::start().await;
    let openai = client(&server, limits());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&vec![7; 1_000_000]).unwrap();
    let from_file = Audio::file(file.path()).await.unwrap();
    let from_file = openai.transcribe(&NOTE, from_file).await.unwrap();
    let pieces = futures::stream::iter((0..100).map(|_| Ok(Bytes::from(vec![7; 10_000])))).boxed();
    let from_stream = openai.transcribe(&NOTE, Audio::stream(1_000_000, pieces)).await.unwrap();
    assert_eq!(from_file.text, from_stream.text);
    assert!(from_file.text.expose().starts_with("A note of 1000000 bytes"));
}

#[tokio::test]
async fn sound_that_is_not_taken() {
    let server = StandIn::start().await;
    let openai = client(&server, limits());
    let amr = Transcription { extension: "amr", ..NOTE };
    let error = openai.transcribe(&amr, Audio::bytes(Bytes::from_static(b"x"))).await.unwrap_err();
    assert_eq!(error.code(), "permanent");
    assert!(server.asked().is_empty());
    let huge = Audio::bytes(Bytes::from(vec![0; 27_000_000]));
    let error = openai.transcribe(&NOTE, huge).await.unwrap_err();
    assert!(matches!(error, OpenAiError::Permanent { status: 413, .. }), "{error:?}");
    let pieces =
        futures::stream::iter([Ok(Bytes::from_static(b"abc")), Err(std::io::ErrorKind::NotFound.into())]);
    let error = openai.transcribe(&NOTE, Audio::stream(10, pieces.boxed())).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), ("source", true));
}
