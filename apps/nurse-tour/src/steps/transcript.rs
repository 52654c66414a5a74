//! TRANSCRIBED: speech to text, in the language that was spoken.

use serde::{Deserialize, Serialize};
use windlass_outside::objects::{Object, Objects, ObjectsError};
use windlass_outside::openai::{Audio, OpenAi, Transcription, takes};
use windlass_outside::twilio::{Sound, looked_at};

use super::audio::Stored;
use super::{Audit, sha256_hex};
use crate::settings;
use crate::trouble::Trouble;

/// What was said.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Transcript {
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) language: Option<String>,
    #[serde(default)]
    pub(crate) model: Option<String>,
    #[serde(default, skip_deserializing)]
    pub(crate) audit: Audit,
}

/// What is in the way of a transcript.
pub(crate) enum Unheard {
    /// The archive has lost the note.
    Gone,
    /// Anything else.
    Trouble(Trouble),
}

impl<E: Into<Trouble>> From<E> for Unheard {
    fn from(error: E) -> Self {
        Self::Trouble(error.into())
    }
}

/// Has the archived note transcribed; it goes from the archive to OpenAI in pieces.
pub(crate) async fn transcribe(
    openai: &OpenAi,
    objects: &Objects,
    settings: &settings::OpenAi,
    stored: &Stored,
) -> Result<Transcript, Unheard> {
    let object = match objects.get_whole(&stored.key).await {
        Ok(object) => object.ok_or(Unheard::Gone)?,
        Err(ObjectsError::Key) => return Err(Trouble::needs_human("bad_object_key").into()),
        Err(error) => return Err(error.into()),
    };
    let Object { bytes, stream } = object;
    if stored.bytes.is_some_and(|expected| expected != bytes) {
        return Err(Trouble::needs_human("another_object_is_there").into());
    }
    let (sound, stream) = looked_at(stream).await.map_err(ObjectsError::from)?;
    let extension = extension(sound, &stored.key);
    // It is in the archive, and a person can listen to it.
    let extension = extension.filter(|extension| takes(extension));
    let extension = extension.ok_or_else(|| Trouble::needs_human("unsupported_audio"))?;
    let how = Transcription {
        model: &settings.transcribe_model,
        extension,
        language: settings.language.as_deref(),
    };
    let said = openai.transcribe(&how, Audio::stream(bytes, stream)).await?;
    // No text of the database can hold a NUL.
    let text = said.text.into_exposed().replace('\0', "").trim().to_owned();
    let transcript = Transcript { text, language: None, model: None, audit: Audit::default() };
    transcript.is_something()?;
    let text = transcript.text;
    let audit = Audit {
        provider: Some("openai"),
        model: Some(settings.transcribe_model.clone()),
        input: stored.sha256.clone(),
        output: Some(sha256_hex(text.as_bytes())),
        bytes: Some(text.len() as u64),
        ..Audit::default()
    };
    let language = said.language.or_else(|| settings.language.clone());
    Ok(Transcript { text, language, model: Some(settings.transcribe_model.clone()), audit })
}

impl Transcript {
    /// Nothing that was said, whoever stored it, makes no document.
    pub(crate) fn is_something(&self) -> Result<(), Trouble> {
        match self.text.trim().is_empty() {
            true => Err(Trouble::permanent("empty_transcript")),
            false => Ok(()),
        }
    }
}

/// The kind of a recording as an extension: by its bytes, and where these tell nothing by its name.
fn extension(sound: Option<Sound>, key: &str) -> Option<&str> {
    match (sound, key.rsplit_once('.')) {
        (Some(sound), _) => Some(sound.extension()),
        // What was called opus is OGG, and OpenAI knows it by that name.
        (None, Some((_, "opus"))) => Some("ogg"),
        (None, Some((_, extension))) => Some(extension),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_before_names() {
        for (sound, key, expected) in [
            (Some(Sound::Ogg), "audio/a1/SM1.bin", Some("ogg")),
            (Some(Sound::Amr), ".private/audio/a1/SM1.ogg", Some("amr")),
            (None, ".private/audio/a1/SM1.opus", Some("ogg")),
            (None, "audio/a1/SM1.mp3", Some("mp3")),
            (None, "SM1", None),
        ] {
            assert_eq!(extension(sound, key), expected, "{key}");
        }
    }
}
