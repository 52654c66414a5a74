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
    Broken,
}

/// Counts and decodes the bytes of a body.
pub(super) struct Decoder {
    left: u64,
    gzip: Option<MultiGzDecoder<Sink>>,
    input: Bytes,
    /// Whether anything came at all: nothing is an empty body in any encoding.
    begun: bool,
}

impl Decoder {
    pub(super) fn new(gzip: bool, bytes_max: u64) -> Self {
        let sink = Sink { out: BytesMut::new(), left: bytes_max, full: false };
        Self {
            left: bytes_max,
            gzip: gzip.then(|| MultiGzDecoder::new(sink)),
            input: Bytes::new(),
            begun: false,
        }
    }

    /// Takes what came over the wire; [`Decoder::next`] gives what it means.
    pub(super) fn feed(&mut self, input: Bytes) {
        self.begun |= !input.is_empty();
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
        let Some(gzip) = self.gzip.as_mut().filter(|_| self.begun) else { return Ok(None) };
        let out = inflate(gzip, MultiGzDecoder::try_finish)?;
        Ok((!out.is_empty()).then_some(out))
    }

    fn plain(&mut self) -> Result<Bytes, DecodeError> {
        let out = std::mem::take(&mut self.input);
        self.left = self.left.checked_sub(out.len() as u64).ok_or(DecodeError::TooLarge)?;
        Ok(out)
    }
}

/// One step of the decompressor, and what it gave. It is never flushed: what
/// it still holds comes with the next step or with the last one, and after the
/// last one a flush is an error for some backends and none for others.
fn inflate(
    gzip: &mut MultiGzDecoder<Sink>,
    step: impl FnOnce(&mut MultiGzDecoder<Sink>) -> io::Result<()>,
) -> Result<Bytes, DecodeError> {
    let done = step(gzip);
    if gzip.get_ref().full {
        return Err(DecodeError::TooLarge);
    }
    done.map_err(|_| DecodeError::Broken)?;
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
    fn members_one_after_another_and_no_body_at_all() {
        let packed = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(decode(&[&packed], true, 1000).unwrap(), b"one two");
        assert_eq!(decode(&[], true, 1000).unwrap(), b"");
        assert_eq!(decode(&[b""], true, 1000).unwrap(), b"");
    }

    #[test]
    fn cut_and_damaged_input() {
        let packed = gzip(b"some text that is long enough to be cut");
        for length in 1..packed.len() {
            assert_eq!(decode(&[&packed[..length]], true, 1000), Err(DecodeError::Broken), "{length}");
        }
        assert_eq!(decode(&[b"this is no gzip at all"], true, 1000), Err(DecodeError::Broken));
        let mut damaged = packed.clone();
        let last = damaged.len() - 5;
        damaged[last] ^= 1;
        assert_eq!(decode(&[&damaged], true, 1000), Err(DecodeError::Broken), "the checksum is looked at");
    }
}
