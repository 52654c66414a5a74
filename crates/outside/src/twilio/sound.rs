//! What a recording really is, by its first bytes: content types are missing, vague or wrong.

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, Stream, StreamExt};

/// How many bytes are needed to tell.
const HEAD_BYTES: usize = 16;

/// A kind of recording that is known by how it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sound {
    /// OGG, with Opus or Vorbis: what WhatsApp sends.
    Ogg,
    /// MPEG audio.
    Mp3,
    /// MPEG-4 with sound, also as M4A.
    Mp4,
    /// Bare AAC.
    Aac,
    /// Adaptive Multi-Rate, of older phones.
    Amr,
    /// 3GP, of older phones.
    ThreeGp,
    /// RIFF WAVE.
    Wav,
    /// Matroska, as WebM.
    Webm,
    /// Free lossless audio.
    Flac,
}

impl Sound {
    /// Looks at how a recording begins; nothing when that tells nothing.
    pub fn of(head: &[u8]) -> Option<Self> {
        let brand = head.get(4..8).filter(|word| *word == b"ftyp").and_then(|_| head.get(8..11));
        match head {
            _ if brand.is_some_and(|brand| brand == b"3gp" || brand == b"3g2") => Some(Self::ThreeGp),
            _ if brand.is_some() => Some(Self::Mp4),
            [b'O', b'g', b'g', b'S', ..] => Some(Self::Ogg),
            [b'I', b'D', b'3', ..] => Some(Self::Mp3),
            [b'#', b'!', b'A', b'M', b'R', ..] => Some(Self::Amr),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some(Self::Wav),
            [b'f', b'L', b'a', b'C', ..] => Some(Self::Flac),
            [0x1a, 0x45, 0xdf, 0xa3, ..] => Some(Self::Webm),
            // Twelve bits of a frame's beginning, then its layer: none is AAC's, the others are MPEG's.
            [0xff, second, ..] if second & 0xf6 == 0xf0 => Some(Self::Aac),
            [0xff, second, ..] if second & 0xe0 == 0xe0 && second & 0x06 != 0 => Some(Self::Mp3),
            _ => None,
        }
    }

    /// What a content type says that it is; nothing when it says nothing that is known.
    pub fn of_type(essence: &str) -> Option<Self> {
        Some(match essence {
            "audio/ogg" | "audio/opus" | "application/ogg" | "video/ogg" => Self::Ogg,
            "audio/mpeg" | "audio/mp3" => Self::Mp3,
            "audio/mp4" | "audio/x-m4a" | "audio/m4a" | "video/mp4" => Self::Mp4,
            "audio/amr" | "audio/amr-wb" => Self::Amr,
            "audio/3gpp" | "audio/3gpp2" | "video/3gpp" | "video/3gpp2" => Self::ThreeGp,
            "audio/aac" | "audio/x-aac" | "audio/aacp" => Self::Aac,
            "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => Self::Wav,
            "audio/webm" | "video/webm" => Self::Webm,
            "audio/flac" | "audio/x-flac" => Self::Flac,
            _ => return None,
        })
    }

    /// The extension that a file of it has.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Ogg => "ogg",
            Self::Mp3 => "mp3",
            Self::Mp4 => "m4a",
            Self::Aac => "aac",
            Self::Amr => "amr",
            Self::ThreeGp => "3gp",
            Self::Wav => "wav",
            Self::Webm => "webm",
            Self::Flac => "flac",
        }
    }
}

/// Looks at how a stream begins, and gives it back whole.
pub async fn looked_at<E: Send + 'static>(
    stream: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> Result<(Option<Sound>, BoxStream<'static, Result<Bytes, E>>), E> {
    let mut stream = Box::pin(stream);
    let mut head = BytesMut::new();
    while head.len() < HEAD_BYTES {
        match stream.next().await {
            Some(piece) => head.extend_from_slice(&piece?),
            None => break,
        }
    }
    let (sound, head) = (Sound::of(&head), head.freeze());
    Ok((sound, stream::iter([Ok(head)]).chain(stream).boxed()))
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[test]
    fn beginnings() {
        for (head, expected) in [
            (b"OggS\0\x02".as_slice(), Some(Sound::Ogg)),
            (b"ID3\x04\0\0", Some(Sound::Mp3)),
            (&[0xff, 0xfb, 0x90, 0x64], Some(Sound::Mp3)),
            (&[0xff, 0xf3, 0x48, 0xc4], Some(Sound::Mp3)),
            (&[0xff, 0xf1, 0x50, 0x80], Some(Sound::Aac)),
            (&[0xff, 0xf9, 0x50, 0x80], Some(Sound::Aac)),
            (b"#!AMR\n<", Some(Sound::Amr)),
            (b"#!AMR-WB\n", Some(Sound::Amr)),
            (b"\0\0\0\x18ftyp3gp4\0\0", Some(Sound::ThreeGp)),
            (b"\0\0\0\x18ftypM4A \0\0", Some(Sound::Mp4)),
            (b"\0\0\0\x18ftypisom\0\0", Some(Sound::Mp4)),
            (b"RIFF\x24\0\0\0WAVEfmt ", Some(Sound::Wav)),
            (b"RIFF\x24\0\0\0AVI LIST", None),
            (&[0x1a, 0x45, 0xdf, 0xa3, 1], Some(Sound::Webm)),
            (b"fLaC\0", Some(Sound::Flac)),
            (b"<html>", None),
            (b"", None),
            (&[0xff], None),
        ] {
            assert_eq!(Sound::of(head), expected, "{head:?}");
        }
    }

    /// However a stream is cut, it is known, and nothing of it is lost.
    #[tokio::test]
    async fn a_stream_is_given_back_whole() {
        let whole = b"OggS and all the rest of it".as_slice();
        for size in [1, 3, 16, 100] {
            let pieces: Vec<Result<Bytes, ()>> =
                whole.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            let (sound, stream) = looked_at(stream::iter(pieces)).await.unwrap();
            let read: Vec<Bytes> = stream.try_collect().await.unwrap();
            assert_eq!((sound, read.concat().as_slice()), (Some(Sound::Ogg), whole));
        }
    }
}
