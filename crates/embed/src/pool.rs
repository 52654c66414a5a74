//! Shares the work among threads that live as long as one call.

use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::encoder::{Encoder, Scratch};
use crate::error::EmbedError;

/// A batch has about so many tokens: enough that reading the weights costs little beside computing with
/// them, and few enough that a thread can be stopped many times a second.
const BATCH_TOKENS: usize = 256;
/// So many texts are cut into tokens in one go.
const CHUNK_TEXTS: usize = 64;

/// A vector for each text, by its place in the order asked.
type Vectors = Vec<(usize, Option<Vec<f32>>)>;

/// `what` of each text, in order, on several threads.
pub(crate) fn spread<T: Send>(
    threads: NonZero<usize>,
    texts: &[&str],
    what: impl Fn(&str) -> T + Sync,
) -> Vec<T> {
    let chunks: Vec<&[&str]> = texts.chunks(CHUNK_TEXTS).collect();
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        Some((at, *chunks.get(at)?))
    };
    let each = |(at, chunk): (usize, &[&str])| (at, chunk.iter().map(|text| what(text)).collect::<Vec<T>>());
    let run = || std::iter::from_fn(take).map(each).collect();
    let mut done = together(threads.get().min(chunks.len()), run, run);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().flat_map(|(_, chunk)| chunk).collect()
}

/// A vector for each text; `check` is asked on this thread, between batches.
pub(crate) fn encode(
    encoder: &Encoder,
    threads: NonZero<usize>,
    texts: &[Vec<u32>],
    check: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<Vec<f32>>, EmbedError> {
    let work = Work {
        encoder,
        texts,
        batches: Batches::cut(texts, threads),
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let threads = threads.get().min(work.batches.ranges.len());
    let found = together(threads, || work.run(check), || work.run(|_| ControlFlow::Continue(())));
    if work.stop.into_inner() {
        return Err(EmbedError::Stopped { done: work.done.into_inner(), total: texts.len() });
    }
    in_order(found, texts.len())
}

/// What `mine` gives on this thread and `theirs` on the others, all in one. Where the system has no more
/// threads to give, those that there are do all of the work.
fn together<T: Send>(
    threads: usize,
    mine: impl FnOnce() -> Vec<T>,
    theirs: impl Fn() -> Vec<T> + Sync,
) -> Vec<T> {
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().name("embed".to_owned()).spawn_scoped(scope, &theirs).ok();
        let others: Vec<_> = (1..threads).map_while(start).collect();
        let mut found = mine();
        for other in others {
            // A panic over there goes on over here.
            found.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        found
    })
}

/// Which texts are computed together.
struct Batches {
    /// The texts, the longest first.
    order: Vec<usize>,
    /// Parts of `order`.
    ranges: Vec<Range<usize>>,
}

impl Batches {
    /// The longest come first, so that the threads end at about the same time.
    fn cut(texts: &[Vec<u32>], threads: NonZero<usize>) -> Batches {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(texts[*index].len()));
        let total: usize = texts.iter().map(Vec::len).sum();
        let most = BATCH_TOKENS.min(total.div_ceil(threads.get()));
        let mut ranges = Vec::new();
        let (mut from, mut tokens) = (0, 0);
        for (at, index) in order.iter().enumerate() {
            let more = texts[*index].len();
            if at > from && tokens + more > most {
                ranges.push(from..at);
                (from, tokens) = (at, 0);
            }
            tokens += more;
        }
        if from < order.len() {
            ranges.push(from..order.len());
        }
        Batches { order, ranges }
    }
}

/// What the threads share.
struct Work<'a> {
    encoder: &'a Encoder,
    texts: &'a [Vec<u32>],
    batches: Batches,
    next: AtomicUsize,
    done: AtomicUsize,
    stop: AtomicBool,
}

impl Work<'_> {
    /// Computes batch after batch, until there are no more or somebody said to stop.
    fn run(&self, mut check: impl FnMut(usize) -> ControlFlow<()>) -> Vectors {
        let mut scratch = Scratch::default();
        let mut found = Vec::new();
        let unwinding = StopAll(&self.stop);
        while !self.stop.load(Ordering::Relaxed) {
            if check(self.done.load(Ordering::Relaxed)).is_break() {
                self.stop.store(true, Ordering::Relaxed);
                break;
            }
            let Some(range) = self.batches.ranges.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let indexes = &self.batches.order[range.clone()];
            let texts: Vec<&[u32]> = indexes.iter().map(|index| &self.texts[*index][..]).collect();
            found.extend(indexes.iter().copied().zip(self.encoder.encode(&texts, &mut scratch)));
            self.done.fetch_add(texts.len(), Ordering::Relaxed);
        }
        std::mem::forget(unwinding);
        found
    }
}

/// Dropped only by a panic, such as one of the caller's check: the others must not go on with what nobody
/// will see.
struct StopAll<'a>(&'a AtomicBool);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn in_order(found: Vectors, total: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    let mut vectors = vec![Vec::new(); total];
    for (index, vector) in found {
        vectors[index] = vector.ok_or(EmbedError::NotFinite { index })?;
    }
    Ok(vectors)
}
