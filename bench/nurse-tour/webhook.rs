//! How soon the webhook answers: the signature checked, the row inserted and committed.

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_engine::world::monotonic_ns;
use windlass_testkit::eventually::answered;

use crate::place::Place;
use crate::spread::Spread;

const URL: &str = "https://hooks.example.com/twilio";
/// As many as Twilio might send at once.
const AT_ONCE: i64 = 8;

pub async fn webhook(requests: i64) -> anyhow::Result<()> {
    let place = Place::new().await?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let settings = [("WEBHOOK_PUBLIC_URL", URL.to_owned()), ("WEBHOOK_LISTEN", format!("127.0.0.1:{port}"))];
    let mut program = place.program(&["webhook"], &settings)?;
    answered(async || TcpStream::connect(("127.0.0.1", port)).await.ok()).await.context("nobody listens")?;
    let mut times = Vec::new();
    for n in 0..requests {
        times.push(ask(&place, port, n).await?);
    }
    println!("{requests} calls of the webhook, one after the other: {}", Spread(times));
    let mut times = Vec::new();
    for n in (requests..2 * requests).step_by(AT_ONCE as usize) {
        let asks = (n..n + AT_ONCE).map(|n| ask(&place, port, n));
        times.extend(futures::future::try_join_all(asks).await?);
    }
    println!("{} calls, {AT_ONCE} at once: {}", times.len(), Spread(times.clone()));
    let ready = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status = 'READY'";
    let stored: i64 = place.client.query_one(ready, &[]).await?.get(0);
    program.kill()?;
    program.wait()?;
    if stored != requests + times.len() as i64 {
        bail!("{stored} messages were stored");
    }
    Ok(())
}

/// One signed call. Answers the milliseconds from the connection to the last byte of the answer.
async fn ask(place: &Place, port: u16, n: i64) -> anyhow::Result<f64> {
    let (sid, account) = (format!("SM{n}"), place.twilio.account());
    let media = place.twilio.media_url(&sid, &format!("ME{sid}"));
    let form = [
        ("MessageSid", sid.as_str()),
        ("AccountSid", &account),
        ("From", "whatsapp:+4915100000001"),
        ("ProfileName", "Schwester"),
        ("Body", ""),
        ("NumMedia", "1"),
        ("MediaContentType0", "audio/ogg; codecs=opus"),
        ("MediaUrl0", &media),
    ];
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request = format!(
        "POST /twilio HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         x-twilio-signature: {}\r\ncontent-length: {}\r\n\r\n{body}",
        place.twilio.sign(URL, &form),
        body.len()
    );
    let began = monotonic_ns();
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).await?;
    tcp.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await?;
    let took = (monotonic_ns() - began) as f64 / 1e6;
    if !answer.starts_with("HTTP/1.1 200") {
        bail!("the webhook answered {}", answer.lines().next().unwrap_or_default());
    }
    Ok(took)
}
