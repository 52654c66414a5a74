//! TRANSCRIBED: speech to text, in the language that was spoken.

use serde::{Deserialize, Serialize};
use windlass_outside::objects::{ObjectKey, Objects};
use windlass_outside::openai::{Audio, OpenAi, Transcription};

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

/// Has the archived note transcribed; it goes from the archive to OpenAI in pieces.
pub(crate) async fn transcribe(
    openai: &OpenAi,
    objects: &Objects,
    settings: &settings::OpenAi,
    stored: &Stored,
) -> Result<Transcript, Trouble> {
    let (key, extension) = key(&stored.key)?;
    let object = objects.get(&key).await?.ok_or_else(|| Trouble::needs_human("the_object_is_gone"))?;
    if stored.bytes.is_some_and(|bytes| bytes != object.bytes) {
        return Err(Trouble::needs_human("another_object_is_there"));
    }
    let how = Transcription {
        model: &settings.transcribe_model,
        extension: &extension,
        language: settings.language.as_deref(),
    };
    let said = openai.transcribe(&how, Audio::stream(object.bytes, object.stream)).await?;
    let text = said.text.into_exposed().trim().to_owned();
    if text.is_empty() {
        return Err(Trouble::permanent("empty_transcript"));
    }
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

/// The object that a column names. An earlier worker wrote its folder in front of it.
fn key(path: &str) -> Result<(ObjectKey, String), Trouble> {
    let start = path.find("audio/").ok_or_else(|| Trouble::needs_human("bad_object_key"))?;
    let parts: Vec<&str> = path[start..].split('/').collect();
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    // What was called opus is OGG, and OpenAI knows it by that name.
    let extension = if extension == "opus" { "ogg" } else { extension };
    Ok((ObjectKey::new(&parts)?, extension.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_this_worker_and_of_the_one_before() {
        for (path, expected) in [
            ("audio/a1/SM1.ogg", Some(("audio/a1/SM1.ogg", "ogg"))),
            (".private/audio/a1/SM1.opus", Some(("audio/a1/SM1.opus", "ogg"))),
            ("elsewhere/SM1.ogg", None),
            ("audio/../../SM1.ogg", None),
        ] {
            let found = key(path).ok().map(|(key, extension)| (key.path(), extension));
            assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())), "{path}");
        }
    }
}
