//! A connection that does not wait for ever: neither for the rest of a
//! header nor for a client that leaves its answer unread.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use windlass_engine::world::World;

use crate::timer;

/// What the service tells the connection about its requests.
#[derive(Default)]
pub(crate) struct Marks {
    busy: AtomicBool,
    requests: AtomicU64,
}

impl Marks {
    /// A request has its headers and is being worked on until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        Busy(self.clone())
    }
}

/// A request is being worked on.
pub(crate) struct Busy(Arc<Marks>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
    }
}

/// A connection with its deadlines.
pub(crate) struct GuardedIo<T> {
    io: T,
    world: Arc<dyn World>,
    marks: Arc<Marks>,
    header_ms: u64,
    stall_ms: u64,
    /// Runs from the first byte of a header; belongs to the request of that number.
    header: Option<(u64, BoxFuture<'static, ()>)>,
    /// Runs while the client takes nothing.
    stall: Option<BoxFuture<'static, ()>>,
}

impl<T> GuardedIo<T> {
    pub(crate) fn new(
        io: T,
        world: Arc<dyn World>,
        marks: Arc<Marks>,
        header_ms: u64,
        stall_ms: u64,
    ) -> Self {
        Self { io, world, marks, header_ms, stall_ms, header: None, stall: None }
    }

    /// Arms the deadline of a header when its first byte has come, and drops
    /// it when the header was complete.
    fn mind_header(&mut self, got_bytes: bool) {
        let requests = self.marks.requests.load(Ordering::Relaxed);
        if self.header.as_ref().is_some_and(|(number, _)| *number != requests) {
            self.header = None;
        }
        if got_bytes && self.header.is_none() && !self.marks.busy.load(Ordering::Relaxed) {
            self.header = Some((requests, timer(&self.world, self.header_ms)));
        }
    }

    fn written<R>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if result.is_ready() {
            self.stall = None;
            return result;
        }
        let (world, ms) = (&self.world, self.stall_ms);
        let stall = self.stall.get_or_insert_with(|| timer(world, ms));
        match stall.poll_unpin(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for GuardedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        self.mind_header(buf.filled().len() > before);
        if read.is_pending()
            && let Some((_, header)) = &mut self.header
            && header.poll_unpin(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for GuardedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, buf);
        self.written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_flush(cx);
        self.written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_shutdown(cx);
        self.written(cx, result)
    }
}
