//! Reading what a program writes, without ever holding more than a bound.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};
use windlass_core::job::Job;

/// How much of the end of stderr is kept.
const TAIL_BYTES_MAX: usize = 4 * 1024;

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail(VecDeque<u8>);

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        let surplus = self.0.len().saturating_sub(TAIL_BYTES_MAX);
        self.0.drain(..surplus);
    }

    /// The last lines as text; what is not UTF-8 is replaced.
    pub(super) fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// Which of its two pipes a program wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipe {
    /// Its stdout.
    Out,
    /// Its stderr.
    Err,
}

/// Who hears the lines that a program writes.
#[derive(Clone)]
pub(super) struct OnLine(pub(super) Arc<Hear>);

type Hear = dyn Fn(&Job, Pipe, &str) + Send + Sync;

impl std::fmt::Debug for OnLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnLine")
    }
}

/// Reads all of a stream and keeps its end; each line is heard as it comes.
/// With `pass` all of it also goes to the worker's own stderr.
pub(super) async fn read_tail(
    mut stream: impl AsyncRead + Unpin,
    tail: &std::sync::Mutex<Tail>,
    pass: bool,
    hear: impl Fn(&str),
) {
    let mut buffer = [0; 8 * 1024];
    let mut line = Vec::new();
    let end = |line: &mut Vec<u8>| {
        hear(String::from_utf8_lossy(line).trim_end_matches('\r'));
        line.clear();
    };
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if pass {
            use std::io::Write;
            // Should nobody read it, the program goes on all the same.
            let _ = std::io::stderr().write_all(&buffer[..count]);
        }
        for byte in &buffer[..count] {
            match byte {
                b'\n' => end(&mut line),
                byte if line.len() < TAIL_BYTES_MAX => line.push(*byte),
                _ => {}
            }
        }
        tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(&buffer[..count]);
    }
    if !line.is_empty() {
        end(&mut line);
    }
}

/// Reads lines of bounded length; what is longer is cut.
pub(super) struct Lines<R> {
    stream: R,
    bytes_max: usize,
    line: Vec<u8>,
    buffer: Box<[u8; 8 * 1024]>,
    filled: std::ops::Range<usize>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(stream: R, bytes_max: usize) -> Self {
        Self { stream, bytes_max, line: Vec::new(), buffer: Box::new([0; 8 * 1024]), filled: 0..0 }
    }

    /// The next line; nothing at the end. Safe to drop while waiting.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            while let Some(byte) = self.filled.next() {
                match self.buffer[byte] {
                    b'\n' => return Some(self.take()),
                    byte if self.line.len() < self.bytes_max => self.line.push(byte),
                    _ => {}
                }
            }
            match self.stream.read(&mut self.buffer[..]).await {
                Ok(count @ 1..) => self.filled = 0..count,
                _ if self.line.is_empty() => return None,
                _ => return Some(self.take()),
            }
        }
    }

    fn take(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_and_the_last_needs_no_end() {
        let mut lines = Lines::new(&b"one\r\n\nlonger than ten\nlast"[..], 10);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await {
            found.push(line);
        }
        assert_eq!(found, ["one", "", "longer tha", "last"]);
    }

    #[test]
    fn a_tail_is_bounded() {
        let mut tail = Tail::default();
        for _ in 0..1000 {
            tail.push(&[b'x'; 100]);
        }
        tail.push(b"the end");
        assert_eq!(tail.0.len(), TAIL_BYTES_MAX);
        assert!(tail.text().ends_with("xthe end"));
    }
}
