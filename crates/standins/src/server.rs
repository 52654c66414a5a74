//! The HTTP server beneath all stand-ins.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{self, BoxStream, StreamExt};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::ask::{Answer, Ask};
use crate::fault::{Fault, Faults};

/// What a stand-in answers when nothing goes wrong.
pub trait Service: Send + Sync + 'static {
    /// The answer to a request.
    fn answer(&self, ask: &Ask) -> Answer;

    /// Whether a question only asks if all is well. Such a question is answered by the rules alone, so that
    /// scripts of faults and logs of calls speak of the work.
    fn is_aside(&self, _ask: &Ask) -> bool {
        false
    }
}

impl<F: Fn(&Ask) -> Answer + Send + Sync + 'static> Service for F {
    fn answer(&self, ask: &Ask) -> Answer {
        self(ask)
    }
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A server on a free loopback port. It ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    /// The faults to come.
    pub faults: Arc<Faults>,
    log: Arc<Mutex<Vec<Ask>>>,
    probes: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
    // Connections end when this is gone.
    _alive: watch::Sender<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server.
    pub async fn start(service: impl Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let (faults, log) = (Arc::new(Faults::default()), Arc::new(Mutex::new(Vec::new())));
        let (alive, ended) = watch::channel(());
        let probes = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(Shared {
            service: Box::new(service),
            faults: faults.clone(),
            log: log.clone(),
            probes: probes.clone(),
        });
        let connections = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(accept(listener, shared, connections.clone(), ended));
        Self { address, faults, log, probes, connections, task, _alive: alive }
    }

    /// Where it is: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All that it was asked, in the order of arrival.
    pub fn asked(&self) -> Vec<Ask> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many questions were put aside: they are in no log and meet no fault.
    pub fn probes(&self) -> usize {
        self.probes.load(Ordering::Relaxed)
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Forgets what it was asked.
    pub fn forget(&self) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

struct Shared {
    service: Box<dyn Service>,
    faults: Arc<Faults>,
    log: Arc<Mutex<Vec<Ask>>>,
    probes: Arc<AtomicUsize>,
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    connections: Arc<AtomicUsize>,
    ended: watch::Receiver<()>,
) {
    loop {
        let Ok((tcp, _)) = listener.accept().await else { continue };
        connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(serve(tcp, shared.clone(), ended.clone()));
    }
}

async fn serve(tcp: TcpStream, shared: Arc<Shared>, mut ended: watch::Receiver<()>) {
    let _ = tcp.set_nodelay(true);
    let service = service_fn(|request| respond(request, shared.clone()));
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service);
    tokio::select! {
        _ = connection => {}
        _ = ended.changed() => {}
    }
}

async fn respond(request: http::Request<Incoming>, shared: Arc<Shared>) -> io::Result<http::Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let ask = Ask {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body_bytes: body.len(),
        body,
    };
    if shared.service.is_aside(&ask) {
        shared.probes.fetch_add(1, Ordering::Relaxed);
        return Ok(whole(shared.service.answer(&ask)));
    }
    shared.log.lock().unwrap_or_else(PoisonError::into_inner).push(ask.for_log());
    let fault = shared.faults.next();
    if matches!(fault, Some(Fault::CutHead)) {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    if matches!(fault, Some(Fault::HoldHead)) {
        wait(shared.faults.released()).await;
    }
    let answer = shared.service.answer(&ask);
    if fault.is_none() {
        return Ok(whole(packed(answer, &ask)));
    }
    Ok(spoil(answer, fault, &ask, &shared.faults))
}

/// Applies a fault to an answer.
fn spoil(answer: Answer, fault: Option<Fault>, ask: &Ask, faults: &Faults) -> http::Response<Body> {
    let body = answer.body.clone();
    let length = body.len();
    match fault {
        None | Some(Fault::HoldHead | Fault::CutHead) => whole(answer),
        Some(Fault::HoldBody { after }) => {
            let (first, rest) = (body.slice(..after.min(length)), body.slice(after.min(length)..));
            let released = faults.released();
            let rest = stream::once(async move {
                wait(released).await;
                Ok(rest)
            });
            with_stream(answer, Some(length), stream::iter([Ok(first)]).chain(rest).boxed())
        }
        Some(Fault::Trickle { every }) => {
            let drops = stream::unfold(tokio::time::interval(every), |mut pause| async {
                pause.tick().await;
                Some((Ok(Bytes::from_static(b" ")), pause))
            });
            with_stream(answer, None, drops.boxed())
        }
        Some(Fault::CutBody { after }) => {
            let first = body.slice(..after.min(length));
            let cut = stream::iter([Ok(first), Err(io::ErrorKind::ConnectionReset.into())]);
            with_stream(answer, Some(length.max(after + 1)), cut.boxed())
        }
        Some(Fault::Type(essence)) => whole(answer.with("content-type", essence)),
        Some(Fault::Status(status, retry_after)) => whole(status_answer(status, retry_after)),
        Some(Fault::Answer(other)) => whole(other),
        Some(Fault::Garbage) => whole(Answer { body: noise(4096), ..answer }),
        Some(Fault::Huge(bytes)) => with_stream(answer, None, zeros(bytes)),
        Some(Fault::GzipBomb(bytes)) => {
            whole(Answer { body: bomb(bytes), ..answer }.with(CONTENT_ENCODING.as_str(), "gzip"))
        }
        Some(Fault::Redirect(status, to)) => whole(Answer::redirect(status, &to)),
        Some(Fault::RedirectLoop) => whole(Answer::redirect(302, &format!("{}?again", ask.path))),
    }
}

/// Packs an answer for those who take gzip, as the providers do: whatever is text and not tiny.
fn packed(answer: Answer, ask: &Ask) -> Answer {
    const BYTES_MIN: usize = 64;
    let takes_it = ask.header("accept-encoding").is_some_and(|takes| takes.contains("gzip"));
    let essence = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_text =
        ["text/", "application/json", "application/xml"].iter().any(|text| essence.starts_with(text));
    let is_packed = answer.headers.contains_key(CONTENT_ENCODING);
    if !takes_it || !is_text || is_packed || answer.body.len() < BYTES_MIN {
        return answer;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&answer.body).expect("memory takes what is written");
    let body = encoder.finish().expect("memory takes what is written").into();
    Answer { body, ..answer }.with(CONTENT_ENCODING.as_str(), "gzip")
}

fn status_answer(status: u16, retry_after: Option<&str>) -> Answer {
    let answer = Answer::new(status, "text/plain", "a body that nobody should repeat: canary-body");
    match retry_after {
        Some(value) => answer.with("retry-after", value),
        None => answer,
    }
}

fn whole(answer: Answer) -> http::Response<Body> {
    let body = Full::new(answer.body.clone()).map_err(|never: Infallible| match never {}).boxed_unsync();
    head(answer, body)
}

fn with_stream(
    mut answer: Answer,
    length: Option<usize>,
    pieces: BoxStream<'static, io::Result<Bytes>>,
) -> http::Response<Body> {
    if let Some(length) = length {
        answer.headers.insert(CONTENT_LENGTH, length.into());
    }
    let pieces = pieces.map(|piece| piece.map(Frame::data));
    head(answer, StreamBody::new(pieces).boxed_unsync())
}

fn head(answer: Answer, body: Body) -> http::Response<Body> {
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(answer.status).expect("a stand-in's status is valid");
    *response.headers_mut() = answer.headers;
    response
}

async fn wait(mut released: watch::Receiver<bool>) {
    // The sender is gone when the server is: then nobody waits for the answer any more.
    let _ = released.wait_for(|released| *released).await;
}

fn zeros(bytes: u64) -> BoxStream<'static, io::Result<Bytes>> {
    const PIECE: Bytes = Bytes::from_static(&[0; 16_384]);
    stream::unfold(bytes, |left| async move {
        let piece = left.min(PIECE.len() as u64);
        (piece > 0).then(|| (Ok(PIECE.slice(..piece as usize)), left - piece))
    })
    .boxed()
}

fn bomb(bytes: u64) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = [0; 65_536];
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(zeros.len() as u64);
        encoder.write_all(&zeros[..piece as usize]).expect("memory takes what is written");
        left -= piece;
    }
    encoder.finish().expect("memory takes what is written").into()
}

/// Bytes that look random and are always the same.
pub(crate) fn noise(bytes: usize) -> Bytes {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    });
    next.take(bytes).collect()
}
