//! Decoding a compressed body, never past its limit.

mod codec;

use bytes::Bytes;

use super::request::Accepts;
use codec::{Codec, Sink};

/// How much compressed input is taken at once, so that a body is given on as it comes. What it becomes is
/// bounded by the sink and not by this: brotli makes megabytes out of a few bytes.
const INPUT_BYTES_MAX: usize = 4096;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    /// With zlib's frame, as the standard says, or without, as some servers have it.
    Deflate,
    Brotli,
}

impl Encoding {
    /// What `Content-Encoding` says. More than one on top of another is none that was asked for.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Some(Self::Identity),
            b"gzip" | b"x-gzip" => Some(Self::Gzip),
            b"deflate" => Some(Self::Deflate),
            b"br" => Some(Self::Brotli),
            _ => None,
        }
    }

    pub(super) fn is_within(self, accepts: Accepts) -> bool {
        match self {
            Self::Identity => true,
            // Some servers compress whoever asks; gzip is unpacked for all.
            Self::Gzip => true,
            Self::Deflate | Self::Brotli => accepts == Accepts::All,
        }
    }
}

/// Why decoding ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    TooLarge,
    Broken,
}

/// Counts and decodes the bytes of a body.
pub(super) struct Decoder {
    left: u64,
    codec: Option<Codec>,
    input: Bytes,
    /// Whether anything came at all: nothing is an empty body in any encoding.
    begun: bool,
}

impl Decoder {
    pub(super) fn new(encoding: Encoding, bytes_max: u64) -> Self {
        let codec = Codec::new(encoding, Sink::new(bytes_max));
        Self { left: bytes_max, codec, input: Bytes::new(), begun: false }
    }

    /// Takes what came over the wire; [`Decoder::next`] gives what it means.
    pub(super) fn feed(&mut self, input: Bytes) {
        self.begun |= !input.is_empty();
        self.input = input;
    }

    /// The next decoded bytes; `None` when more input is needed.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, DecodeError> {
        while !self.input.is_empty() {
            let out = match &mut self.codec {
                None => self.plain()?,
                Some(codec) => {
                    let piece = self.input.split_to(self.input.len().min(INPUT_BYTES_MAX));
                    codec.step(|codec| codec.write(&piece))?
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
        let Some(codec) = self.codec.as_mut().filter(|_| self.begun) else { return Ok(None) };
        let out = codec.step(Codec::finish)?;
        Ok((!out.is_empty()).then_some(out))
    }

    fn plain(&mut self) -> Result<Bytes, DecodeError> {
        let out = std::mem::take(&mut self.input);
        self.left = self.left.checked_sub(out.len() as u64).ok_or(DecodeError::TooLarge)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn raw(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn brotli(bytes: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        let how = brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
        brotli::BrotliCompress(&mut &bytes[..], &mut packed, &how).unwrap();
        packed
    }

    type Pack = fn(&[u8]) -> Vec<u8>;
    const ALL: [(Encoding, Pack); 4] = [
        (Encoding::Gzip, gzip),
        (Encoding::Deflate, zlib),
        (Encoding::Deflate, raw),
        (Encoding::Brotli, brotli),
    ];

    fn decode(pieces: &[&[u8]], encoding: Encoding, max: u64) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = Decoder::new(encoding, max);
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
        for (encoding, pack) in ALL {
            let packed = pack(&text);
            for size in [1, 7, 100, packed.len()] {
                let pieces: Vec<&[u8]> = packed.chunks(size).collect();
                assert_eq!(decode(&pieces, encoding, 100_000).unwrap(), text, "{encoding:?} {size}");
            }
            assert_eq!(decode(&[&pack(b"")], encoding, 10).unwrap(), b"", "{encoding:?}");
            assert_eq!(decode(&[&pack(&text)], encoding, 14_000).unwrap(), text, "{encoding:?}: just fits");
            assert_eq!(decode(&[&pack(&text)], encoding, 13_999), Err(DecodeError::TooLarge), "{encoding:?}");
        }
        assert_eq!(decode(&[b"ab", b"c"], Encoding::Identity, 3).unwrap(), b"abc");
        assert_eq!(decode(&[b"ab", b"cd"], Encoding::Identity, 3), Err(DecodeError::TooLarge));
    }

    /// Fault 61: the limit counts decoded bytes, and stops the work.
    #[test]
    fn fault_61_a_bomb_is_stopped_at_the_limit() {
        let zeros = vec![0; 50_000_000];
        for (encoding, pack) in ALL {
            let bomb = pack(&zeros);
            assert!(bomb.len() < 60_000, "{encoding:?}");
            assert_eq!(decode(&[&bomb], encoding, 1_000_000), Err(DecodeError::TooLarge), "{encoding:?}");
        }
    }

    #[test]
    fn members_one_after_another_and_no_body_at_all() {
        let packed = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(decode(&[&packed], Encoding::Gzip, 1000).unwrap(), b"one two");
        for (encoding, _) in ALL {
            assert_eq!(decode(&[], encoding, 1000).unwrap(), b"");
            assert_eq!(decode(&[b""], encoding, 1000).unwrap(), b"");
        }
    }

    #[test]
    fn cut_and_damaged_input() {
        for (encoding, pack) in ALL {
            let packed = pack(b"some text that is long enough to be cut");
            for length in 1..packed.len() {
                let found = decode(&[&packed[..length]], encoding, 1000);
                assert_eq!(found, Err(DecodeError::Broken), "{encoding:?} {length}");
            }
            let no_such_thing = b"\xff\xff this is not compressed at all";
            assert_eq!(decode(&[no_such_thing], encoding, 1000), Err(DecodeError::Broken), "{encoding:?}");
            let more = [packed.clone(), b"and more".to_vec()].concat();
            assert_eq!(decode(&[&more], encoding, 1000), Err(DecodeError::Broken), "{encoding:?}");
        }
        let mut damaged = gzip(b"some text that is long enough to be cut");
        let last = damaged.len() - 5;
        damaged[last] ^= 1;
        let found = decode(&[&damaged], Encoding::Gzip, 1000);
        assert_eq!(found, Err(DecodeError::Broken), "the checksum is looked at");
    }

    #[test]
    fn names_of_encodings() {
        for (name, expected) in [
            ("", Some(Encoding::Identity)),
            ("GZip", Some(Encoding::Gzip)),
            (" br ", Some(Encoding::Brotli)),
            ("deflate", Some(Encoding::Deflate)),
            ("gzip, br", None),
            ("zstd", None),
        ] {
            assert_eq!(Encoding::named(name.as_bytes()), expected, "{name}");
        }
    }
}
