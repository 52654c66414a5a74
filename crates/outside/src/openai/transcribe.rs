//! Speech to text.

use std::fmt;
use std::io;
use std::path::Path;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use serde::Deserialize;
use tokio::fs::File;

use super::{OpenAi, OpenAiError, read, request_id};
use crate::multipart::Form;
use crate::pieces::pieces;
use crate::secret::Phi;
use crate::text::identifier;

/// The kinds of files that OpenAI takes, by extension, with their content types.
const KINDS: [(&str, &str); 9] = [
    ("flac", "audio/flac"),
    ("mp3", "audio/mpeg"),
    ("mp4", "audio/mp4"),
    ("mpeg", "audio/mpeg"),
    ("mpga", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("ogg", "audio/ogg"),
    ("wav", "audio/wav"),
    ("webm", "audio/webm"),
];

/// Whether OpenAI takes files with this extension.
pub fn takes(extension: &str) -> bool {
    KINDS.iter().any(|(known, _)| *known == extension)
}

/// Sound that is to be transcribed: a stream of known length, never held whole.
pub struct Audio {
    bytes: u64,
    stream: BoxStream<'static, io::Result<Bytes>>,
}

impl fmt::Debug for Audio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Audio({} bytes)", self.bytes)
    }
}

impl Audio {
    /// Sound that is in memory.
    pub fn bytes(bytes: Bytes) -> Self {
        Self::stream(bytes.len() as u64, stream::iter([Ok(bytes)]).boxed())
    }

    /// Sound in a file.
    pub async fn file(path: &Path) -> io::Result<Self> {
        let file = File::open(path).await?;
        let bytes = file.metadata().await?.len();
        Ok(Self::stream(bytes, pieces(file)))
    }

    /// Sound from elsewhere, exactly `bytes` bytes of it.
    pub fn stream(bytes: u64, stream: BoxStream<'static, io::Result<Bytes>>) -> Self {
        Self { bytes, stream }
    }
}

/// What is to be transcribed, and how.
#[derive(Debug)]
pub struct Transcription<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The kind of the file, as its extension: `ogg`.
    pub extension: &'a str,
    /// The language as two letters, when it is known; else it is detected.
    pub language: Option<&'a str>,
}

/// What was said.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The text.
    pub text: Phi<String>,
    /// The language that was detected, when the model tells.
    pub language: Option<String>,
    /// The length of the sound in seconds, when the model tells.
    pub seconds: Option<f64>,
    /// OpenAI's id of the call.
    pub request_id: Option<String>,
}

impl OpenAi {
    /// Transcribes sound.
    pub async fn transcribe(&self, how: &Transcription<'_>, audio: Audio) -> Result<Transcript, OpenAiError> {
        let kind = KINDS.iter().find(|(extension, _)| *extension == how.extension);
        let unfit = || OpenAiError::Permanent { status: 400, code: "unsupported_audio".to_owned() };
        let (extension, content_type) = kind.ok_or_else(unfit)?;
        let mut form = Form::new(self.boundary()).text("model", how.model);
        if let Some(language) = how.language {
            form = form.text("language", language);
        }
        // Only whisper tells the language; the newer models know no other form than json.
        let format = if how.model.starts_with("whisper") { "verbose_json" } else { "json" };
        form = form.text("response_format", format);
        let (form_type, body) =
            form.file(&format!("audio.{extension}"), content_type, audio.bytes, audio.stream);
        let answer = self.post("audio/transcriptions", &form_type, body).await?;
        let request_id = request_id(&answer);
        let said: Said = read(answer).await?;
        let language = said.language.filter(|language| identifier(language).is_some());
        Ok(Transcript { text: Phi::new(said.text), language, seconds: said.duration, request_id })
    }
}

#[derive(Deserialize)]
struct Said {
    text: String,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    duration: Option<f64>,
}
