//! Decoding a compressed body, never past its limit.

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;

/// How much compressed input is taken at once: at gzip's best ratio of about
/// 1000 to 1 it becomes 4 MB at most.
const INPUT_BYTES_MAX: usize = 4096;

/// Why decoding ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    TooLarge,
    Garbled,
}

/// Counts and decodes the bytes of a body.
pub(super) struct Decoder {
    left: u64,
    gzip: Option<MultiGzDecoder<Sink>>,
    input: Bytes,
}

impl Decoder {
    pub(super) fn new(gzip: bool, bytes_max: u64) -> Self {
        let sink = Sink { out: BytesMut::new(), left: bytes_max, full: false };
        Self { left: bytes_max, gzip: gzip.then(|| MultiGzDecoder::new(sink)), input: Bytes::new() }
    }

    /// Takes what came over the wire; [`Decoder::next`] gives what it means.
    pub(super) fn feed(&mut self, input: Bytes) {
        self.input = input;
    }

    /// The next decoded bytes; `None` when more input is needed.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, DecodeError> {
        while !self.input.is_empty() {
            let out = match &mut self.gzip {
                None => self.plain()?,
                Some(gzip) => {
                    let piece = self.input.split_to(self.input.len().min(INPUT_BYTES_MAX));
                    inflate(gzip, |gzip| gzip.write_all(&piece))?
                }
            };
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    /// What is left when the input has ended. A body that ends too early is an error.
    pub(super) fn finish(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let Some(gzip) = &mut self.gzip else { return Ok(None) };
        let out = inflate(gzip, MultiGzDecoder::try_finish)?;
        Ok((!out.is_empty()).then_some(out))
    }

    fn plain(&mut self) -> Result<Bytes, DecodeError> {
        let out = std::mem::take(&mut self.input);
        self.left = self.left.checked_sub(out.len() as u64).ok_or(DecodeError::TooLarge)?;
        Ok(out)
    }
}

fn inflate(
    gzip: &mut MultiGzDecoder<Sink>,
    step: impl FnOnce(&mut MultiGzDecoder<Sink>) -> io::Result<()>,
) -> Result<Bytes, DecodeError> {
    let done = step(gzip).and_then(|()| gzip.flush());
    if gzip.get_ref().full {
        return Err(DecodeError::TooLarge);
    }
    done.map_err(|_| DecodeError::Garbled)?;
    Ok(gzip.get_mut().out.split().freeze())
}

/// Where the decompressor writes: it fails as soon as the limit is passed, so
/// a bomb is never unpacked any further than that.
struct Sink {
    out: BytesMut,
    left: u64,
    full: bool,
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

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decode(pieces: &[&[u8]], gzip: bool, max: u64) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = Decoder::new(gzip, max);
        let mut all = Vec::new();
        for piece in pieces {
            decoder.feed(Bytes::copy_from_slice(piece));
            while let Some(out) = decoder.next()? {
                all.extend_from_slice(&out);
            }
        }
        all.extend_from_slice(&decoder.finish()?.unwrap_or_default());
        Ok(all)
    }

    #[test]
    fn pieces_of_any_size() {
        let text = b"what was sent ".repeat(1000);
        let packed = gzip(&text);
        for size in [1, 7, 100, packed.len()] {
            let pieces: Vec<&[u8]> = packed.chunks(size).collect();
            assert_eq!(decode(&pieces, true, 100_000).unwrap(), text, "{size}");
        }
        assert_eq!(decode(&[b"ab", b"c"], false, 3).unwrap(), b"abc");
        assert_eq!(decode(&[b"ab", b"cd"], false, 3), Err(DecodeError::TooLarge));
    }

    /// Fault 61: the limit counts decoded bytes, and stops the work.
    #[test]
    fn fault_61_a_gzip_bomb_is_stopped_at_the_limit() {
        let bomb = gzip(&vec![0; 50_000_000]);
        assert!(bomb.len() < 60_000);
        assert_eq!(decode(&[&bomb], true, 1_000_000), Err(DecodeError::TooLarge));
    }

    #[test]
    fn cut_and_garbled_input() {
        let packed = gzip(b"some text that is long enough to be cut");
        assert_eq!(decode(&[&packed[..packed.len() - 9]], true, 1000), Err(DecodeError::Garbled));
        assert_eq!(decode(&[b"this is no gzip at all"], true, 1000), Err(DecodeError::Garbled));
    }
}
