//! The decompressors, behind one face: bytes go in, and out into a sink that has a limit.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

use super::{DecodeError, Encoding};

/// How much a decompressor gives at once.
const OUTPUT_BYTES: usize = 16 * 1024;

pub(super) enum Codec {
    Gzip(Box<MultiGzDecoder<Sink>>),
    Deflate(Box<Inflate>),
    Brotli(Box<DecompressorWriter<Sink>>),
}

impl Codec {
    /// Nothing for a body that is not compressed.
    pub(super) fn new(encoding: Encoding, sink: Sink) -> Option<Self> {
        Some(match encoding {
            Encoding::Identity => return None,
            Encoding::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(sink))),
            Encoding::Deflate => {
                Self::Deflate(Box::new(Inflate { state: None, first: None, ended: false, sink }))
            }
            Encoding::Brotli => Self::Brotli(Box::new(DecompressorWriter::new(sink, OUTPUT_BYTES))),
        })
    }

    /// One step, and what it gave. A decompressor is never flushed: what it still holds comes with the next
    /// step or with the last one, and after the last one a flush is an error for some backends and none for
    /// others.
    pub(super) fn step(
        &mut self,
        step: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> Result<Bytes, DecodeError> {
        let done = step(self);
        let sink = self.sink();
        if sink.full {
            return Err(DecodeError::TooLarge);
        }
        done.map_err(|_| DecodeError::Broken)?;
        Ok(sink.out.split().freeze())
    }

    pub(super) fn write(&mut self, input: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(gzip) => gzip.write_all(input),
            Self::Deflate(inflate) => inflate.write(input),
            Self::Brotli(brotli) => brotli.write_all(input),
        }
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(gzip) => gzip.try_finish(),
            Self::Deflate(inflate) => inflate.finish(),
            Self::Brotli(brotli) => brotli.close(),
        }
    }

    fn sink(&mut self) -> &mut Sink {
        match self {
            Self::Gzip(gzip) => gzip.get_mut(),
            Self::Deflate(inflate) => &mut inflate.sink,
            Self::Brotli(brotli) => brotli.get_mut(),
        }
    }
}

/// Deflate, with zlib's frame or without: its first two bytes tell.
pub(super) struct Inflate {
    state: Option<Decompress>,
    first: Option<u8>,
    ended: bool,
    sink: Sink,
}

impl Inflate {
    fn write(&mut self, input: &[u8]) -> io::Result<()> {
        if self.state.is_some() {
            return self.inflate(input);
        }
        match (self.first, input) {
            (_, []) => Ok(()),
            (None, [first]) => {
                self.first = Some(*first);
                Ok(())
            }
            (None, [first, second, ..]) => {
                self.state = Some(Decompress::new(is_zlib(*first, *second)));
                self.inflate(input)
            }
            (Some(first), [second, ..]) => {
                self.state = Some(Decompress::new(is_zlib(first, *second)));
                self.inflate(&[first])?;
                self.inflate(input)
            }
        }
    }

    fn inflate(&mut self, mut input: &[u8]) -> io::Result<()> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let state = self.state.as_mut().ok_or_else(broken)?;
        let mut output = [0; OUTPUT_BYTES];
        loop {
            if self.ended {
                return if input.is_empty() { Ok(()) } else { Err(broken()) };
            }
            let (taken, given) = (state.total_in(), state.total_out());
            let status = state.decompress(input, &mut output, FlushDecompress::None).map_err(|_| broken())?;
            let taken = (state.total_in() - taken) as usize;
            let given = (state.total_out() - given) as usize;
            self.sink.write_all(&output[..given])?;
            input = &input[taken..];
            self.ended = status == Status::StreamEnd;
            if !self.ended && taken == 0 && given == 0 {
                return if input.is_empty() { Ok(()) } else { Err(broken()) };
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let (None, Some(only)) = (&self.state, self.first) {
            // A single byte can be all of a body without a frame.
            self.state = Some(Decompress::new(false));
            self.inflate(&[only])?;
        }
        if self.ended { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// Whether two bytes are a head of zlib: the method is deflate, and their check fits.
fn is_zlib(first: u8, second: u8) -> bool {
    first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31)
}

/// Where a decompressor writes: it fails as soon as the limit is passed, so a bomb is never unpacked any
/// further than that.
pub(super) struct Sink {
    out: BytesMut,
    left: u64,
    full: bool,
}

impl Sink {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { out: BytesMut::new(), left: bytes_max, full: false }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.full = true;
            return Err(io::Error::other("the limit is reached"));
        };
        self.left = left;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
