//! Reading a stream: opened, read in batches, opened again after whatever can be got over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, Timestamp, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::error::Error;
use mongodb::options::{FullDocumentBeforeChangeType, FullDocumentType};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windlass_engine::world::half_jittered;

use crate::event::Heard;
use crate::home::{Home, code};
use crate::token::Token;

/// How long the server waits for something to tell; also how old a position is at most that is kept while idle.
const AWAIT: Duration = Duration::from_millis(500);
/// The most events and bytes that are read before they are worked on: two batches, so that one is made while the other
/// is written. With the one in the channel this bounds memory.
const CHUNK_EVENTS_MAX: usize = 2_000;
const CHUNK_BYTES_MAX: usize = 4 << 20;
const CHUNKS_AHEAD: usize = 1;
/// Pauses between tries to open a stream.
const PAUSE_MS: u64 = 100;
const PAUSE_MS_MAX: u64 = 5_000;

/// Codes of the server that say that the history is gone.
const HISTORY_LOST: [i32; 2] = [286, 136];
const BAD_TOKEN: [i32; 2] = [260, 280];
const TOO_LARGE: i32 = 10334;
const IMAGE_MISSING: i32 = 47;

/// What comes out of a stream.
#[derive(Debug)]
pub(crate) enum Chunk {
    /// Events in their order, maybe none; and up to where everything has been heard.
    Events { events: Vec<Heard>, token: Token },
    /// History from the position on is gone.
    Lost { code: i32 },
    /// One event cannot be had, whatever is asked for: it has been stepped over.
    Skipped { from: Token, to: Token },
}

/// A stream that is being read.
pub(crate) struct Tail {
    chunks: mpsc::Receiver<Chunk>,
    task: JoinHandle<()>,
}

/// Where a stream begins, and what it hears.
pub(crate) struct Opening {
    pub(crate) pipeline: Vec<Document>,
    pub(crate) start: Token,
    pub(crate) images_before: bool,
    /// It is told whether the stream is open.
    pub(crate) is_open: Arc<AtomicBool>,
}

impl Tail {
    pub(crate) fn start(home: &Home, opening: Opening) -> Self {
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        let reader = Reader {
            home: home.clone(),
            at: opening.start.clone(),
            opening,
            sender,
            images: true,
            is_start: true,
        };
        Self { chunks, task: tokio::spawn(reader.run()) }
    }

    /// What comes next. It is safe to stop waiting for it.
    pub(crate) async fn next(&mut self) -> Option<Chunk> {
        self.chunks.recv().await
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Reader {
    home: Home,
    opening: Opening,
    /// Everything up to here has been handed over.
    at: Token,
    sender: mpsc::Sender<Chunk>,
    /// Whether images are asked for; off while an event is too large with them.
    images: bool,
    /// Whether `at` is a moment that was computed, and no token of the server's.
    is_start: bool,
}

/// Why reading ended.
enum End {
    /// Nobody wants more.
    Unwanted,
    /// Open it again.
    Again,
    Failed(Error),
}

impl Reader {
    async fn run(mut self) {
        let mut pause_ms = PAUSE_MS;
        loop {
            let began = self.home.world.boot_ms();
            let failed = match self.open().await {
                Ok(stream) => {
                    self.opening.is_open.store(true, Ordering::Relaxed);
                    match self.read(stream).await {
                        End::Unwanted => return,
                        End::Again => None,
                        End::Failed(error) => Some(error),
                    }
                }
                Err(error) => Some(error),
            };
            self.opening.is_open.store(false, Ordering::Relaxed);
            if let Some(error) = failed
                && !self.got_over(&error).await
            {
                return;
            }
            // One that ran for a while begins with short pauses again.
            if self.home.world.boot_ms() - began > 10_000 {
                pause_ms = PAUSE_MS;
            }
            self.home.world.sleep_ms(half_jittered(self.home.world.as_ref(), pause_ms)).await;
            pause_ms = (pause_ms * 2).min(PAUSE_MS_MAX);
        }
    }

    async fn open(&self) -> Result<ChangeStream<RawDocumentBuf>, Error> {
        let mut watch =
            self.home.streams.watch().pipeline(self.opening.pipeline.clone()).max_await_time(AWAIT);
        if self.images {
            watch = watch.full_document(FullDocumentType::WhenAvailable);
            if self.opening.images_before {
                watch = watch.full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable);
            }
        }
        let token = self.at.for_driver().filter(|_| !self.is_start);
        watch = match token {
            // Tokens of all kinds may be started after, that of an invalidated stream included.
            Some(token) => watch.start_after(token),
            None => watch.start_at_operation_time(self.at.cluster_time()),
        };
        Ok(watch.await?.with_type::<RawDocumentBuf>())
    }

    async fn read(&mut self, mut stream: ChangeStream<RawDocumentBuf>) -> End {
        let mut events: Vec<Heard> = Vec::new();
        let mut bytes = 0;
        loop {
            let step = {
                let mut next = Box::pin(stream.next_if_any());
                match futures::poll!(&mut next) {
                    Poll::Ready(step) => step,
                    Poll::Pending => {
                        // Whatever is here is worked on while the server is asked for more.
                        if !events.is_empty() && !self.hand_over(&mut events, &mut bytes, None).await {
                            return End::Unwanted;
                        }
                        next.await
                    }
                }
            };
            match step {
                Ok(Some(raw)) => {
                    let heard = Heard::of(&raw);
                    bytes += heard.bytes();
                    events.push(heard);
                    let full = events.len() >= CHUNK_EVENTS_MAX || bytes >= CHUNK_BYTES_MAX;
                    if full && !self.hand_over(&mut events, &mut bytes, None).await {
                        return End::Unwanted;
                    }
                }
                Ok(None) => {
                    let idle = stream.resume_token().as_ref().and_then(Token::of_driver);
                    if !self.hand_over(&mut events, &mut bytes, idle).await {
                        return End::Unwanted;
                    }
                    // A stream that has ended still had what was buffered.
                    if !stream.is_alive() {
                        return End::Again;
                    }
                }
                Err(error) => {
                    if !events.is_empty() && !self.hand_over(&mut events, &mut bytes, None).await {
                        return End::Unwanted;
                    }
                    return End::Failed(error);
                }
            }
        }
    }

    /// Hands over what was read; false when nobody wants it.
    async fn hand_over(&mut self, events: &mut Vec<Heard>, bytes: &mut usize, idle: Option<Token>) -> bool {
        let heard = events.iter().rev().find_map(Heard::token).cloned();
        let token = heard.into_iter().chain(idle).max();
        if let Some(token) = token.filter(|token| *token > self.at) {
            (self.at, self.is_start) = (token, false);
            // The large one is behind us.
            self.images = true;
        }
        *bytes = 0;
        let chunk = Chunk::Events { events: std::mem::take(events), token: self.at.clone() };
        self.sender.send(chunk).await.is_ok()
    }

    /// What an error means; false when there is no going on from here.
    async fn got_over(&mut self, error: &Error) -> bool {
        let code = code(error);
        match code {
            _ if HISTORY_LOST.contains(&code) => {
                tracing::warn!(code, "History is gone from the position of a stream on");
                let _ = self.sender.send(Chunk::Lost { code }).await;
                false
            }
            _ if BAD_TOKEN.contains(&code) => {
                // The moment of the token can be opened; what is heard again is behind every lane's position.
                tracing::warn!(code, "A stream cannot be opened by its token, and is by its moment");
                self.is_start = true;
                true
            }
            TOO_LARGE | IMAGE_MISSING if self.images => {
                tracing::warn!(
                    code,
                    "An event is too large with its images, or has none; it is read without them"
                );
                self.images = false;
                true
            }
            TOO_LARGE => {
                let next = Token::before(self.behind_the_large_one().await);
                let from = std::mem::replace(&mut self.at, next.clone());
                (self.is_start, self.images) = (true, true);
                self.sender.send(Chunk::Skipped { from, to: next }).await.is_ok()
            }
            _ => {
                tracing::warn!(code, error = %error.kind, "A stream has ended, and is opened again");
                // A place for it is not wanted any more.
                !self.sender.is_closed()
            }
        }
    }

    /// The moment behind the event that no stream can tell: the first large entry of the oplog behind our position.
    async fn behind_the_large_one(&self) -> Timestamp {
        const LARGE_BYTES: i32 = 8 << 20;
        let at = self.at.cluster_time();
        let oplog = self.home.client.database("local").collection::<Document>("oplog.rs");
        let large =
            doc! { "ts": { "$gt": at }, "$expr": { "$gt": [ { "$bsonSize": "$$ROOT" }, LARGE_BYTES ] } };
        let found = oplog.find_one(large).sort(doc! { "$natural": 1 }).projection(doc! { "ts": 1 }).await;
        let time = found.ok().flatten().and_then(|entry| entry.get_timestamp("ts").ok()).unwrap_or(at);
        Timestamp { time: time.time, increment: time.increment + 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI32;

    use windlass_engine::core::secret::Secret;
    use windlass_engine::world::{RealWorld, World};
    use windlass_testkit::mongo::ReplicaSet;

    use super::*;
    use crate::settings::Place;

    /// T27: reading that is interrupted every millisecond loses nothing and repeats nothing. For some seconds, or in `./test --full` for
    /// minutes.
    #[tokio::test(flavor = "multi_thread")]
    async fn t27_reading_survives_being_interrupted() {
        let many = if std::env::var_os("WINDLASS_TEST_SOAK_SECONDS").is_some() { 300_000 } else { 2_000 };
        let set = ReplicaSet::shared().await;
        let database = set.fresh_database().await;
        let place = Place {
            uri: Secret::new(set.uri()),
            database: database.name().to_owned(),
            jobs: "jobs".to_owned(),
            target: crate::settings::JobsTarget::Agenda,
            lock_lifetime_ms: 600_000,
        };
        let world: Arc<dyn World> = Arc::new(RealWorld::new());
        let home = Home::open(&place, world.clone()).await.unwrap();
        let opening = Opening {
            pipeline: vec![doc! { "$match": { "ns.db": database.name(), "ns.coll": "numbers" } }],
            start: Token::before(home.after_everything().await.unwrap()),
            images_before: false,
            is_open: Arc::new(AtomicBool::new(false)),
        };
        let mut tail = Tail::start(&home, opening);
        let numbers = database.open().collection::<Document>("numbers");
        let interrupted = Arc::new(AtomicI32::new(0));
        let (interruptions, pause) = (interrupted.clone(), world.clone());
        let writing = tokio::spawn(async move {
            for n in 0..many {
                // No faster than the reader is interrupted, however fast the server is.
                while interruptions.load(Ordering::SeqCst) < n.min(60) {
                    pause.sleep_ms(1).await;
                }
                numbers.insert_one(doc! { "_id": n }).await.unwrap();
            }
        });
        let (mut found, mut last) = (Vec::new(), None);
        while found.len() < many as usize {
            tokio::select! {
                biased;
                () = world.sleep_ms(1) => {
                    interrupted.fetch_add(1, Ordering::SeqCst);
                }
                chunk = tail.next() => {
                    let Some(Chunk::Events { events, token }) = chunk else { panic!("{chunk:?}") };
                    assert!(last.as_ref().is_none_or(|last| *last <= token), "positions never go back");
                    last = Some(token);
                    for heard in events {
                        if let Heard::Change(event) = heard {
                            found.push(event.key.get_i32("_id").unwrap());
                        }
                    }
                }
            }
        }
        writing.await.unwrap();
        assert_eq!(found, (0..many).collect::<Vec<_>>());
        assert!(interrupted.load(Ordering::SeqCst) > 50);
    }
}
