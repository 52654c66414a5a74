//! AUDIO_STORED: the note is archived, and that is proved.

use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use windlass_engine::core::time::Time;
use windlass_outside::objects::{Object, ObjectKey, Objects, ObjectsError, Put};
use windlass_outside::twilio::{MEDIA_BYTES_MAX, Sound, Twilio, TwilioError, looked_at};

use super::{Audit, sha256_hex};
use crate::message::{Message, is_plain};
use crate::people::Bound;
use crate::trouble::{Class, Trouble};

/// After this a media that Twilio does not have will not come any more.
const MISSING_MS_MAX: u64 = 24 * 3_600_000;
/// What a voice note may be called. What says nothing, or says video of a container that also holds sound, is
/// looked at by its bytes.
pub(crate) const KINDS: [&str; 10] = [
    "audio/",
    "application/ogg",
    "application/amr",
    "application/octet-stream",
    "binary/octet-stream",
    "video/3gpp",
    "video/3gpp2",
    "video/mp4",
    "video/ogg",
    "video/webm",
];

/// The archived note, and to whom the message was bound on that occasion.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stored {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) bytes: Option<u64>,
    #[serde(default)]
    pub(crate) sha256: Option<String>,
    #[serde(default, rename = "type")]
    pub(crate) essence: Option<String>,
    #[serde(flatten)]
    pub(crate) bound: Bound,
    #[serde(default, skip_deserializing)]
    pub(crate) audit: Audit,
}

/// Takes the note from Twilio to the archive, without ever holding it whole.
pub(crate) async fn archive(
    twilio: &Twilio,
    objects: &Objects,
    message: &Message,
    bound: Bound,
) -> Result<Stored, Trouble> {
    let url = message.media_url.expose().as_deref().ok_or_else(|| Trouble::permanent("no_media_url"))?;
    let media = twilio.media(url, &KINDS).await.map_err(|error| missing_for_good(error, message))?;
    let essence = media.essence().to_owned();
    let (sound, stream) = looked_at(media.into_stream()).await.map_err(TwilioError::from)?;
    let sound = sound.or_else(|| Sound::of_type(&essence));
    let key = key(bound.agency.as_deref(), &message.sid, sound.map_or("bin", Sound::extension))?;
    let (bytes, sha256) = match objects.put_new(&key, MEDIA_BYTES_MAX, stream).await? {
        Put::Created(content) => (content.bytes, content.sha256_hex()),
        Put::AlreadyThere { offered, .. } => {
            // Left by an attempt that died before it could say so; or by a stranger.
            let found = objects.get(&key).await?.ok_or(ObjectsError::Upstream)?;
            let digest = digest(found).await?;
            if digest != offered.sha256_hex() {
                return Err(Trouble::needs_human("another_object_is_there"));
            }
            (offered.bytes, digest)
        }
    };
    if bytes == 0 {
        return Err(TwilioError::Empty.into());
    }
    // The stage is a proof: what was put is asked for before it is believed.
    if objects.head(&key).await? != Some(bytes) {
        return Err(ObjectsError::Upstream.into());
    }
    let audit = Audit {
        provider: Some("twilio"),
        output: Some(sha256.clone()),
        bytes: Some(bytes),
        ..Audit::default()
    };
    Ok(Stored {
        key: objects.whole(&key),
        bytes: Some(bytes),
        sha256: Some(sha256),
        essence: Some(essence),
        bound,
        audit,
    })
}

/// Archives once more what the archive has lost. It must be what it was.
pub(crate) async fn restore(
    twilio: &Twilio,
    objects: &Objects,
    message: &Message,
    lost: &Stored,
) -> Result<Stored, Trouble> {
    let gone = || Trouble::needs_human("the_object_is_gone");
    if message.media_url.expose().is_none() {
        return Err(gone());
    }
    let again = archive(twilio, objects, message, lost.bound.clone()).await.map_err(|trouble| {
        // Neither the archive nor Twilio has it any more; a person may.
        if trouble.class == Class::Permanent { gone() } else { trouble }
    })?;
    match lost.sha256.is_some() && lost.sha256 != again.sha256 {
        true => Err(Trouble::needs_human("another_object_is_there")),
        false => Ok(again),
    }
}

/// Soon after a message its media may be on its way; later it was deleted.
fn missing_for_good(error: TwilioError, message: &Message) -> Trouble {
    let Message { received_at, claimed_at, .. } = message;
    let old = Time::ms_since(*claimed_at, *received_at) > MISSING_MS_MAX;
    let class = if error == TwilioError::Missing && old { Some(Class::Permanent) } else { None };
    let trouble = Trouble::from(error);
    Trouble { class: class.unwrap_or(trouble.class), ..trouble }
}

/// `audio/{agencyId}/{messageSid}.{ext}`. An agency whose id cannot be part of
/// a name is named by its digest.
pub(crate) fn key(agency: Option<&str>, sid: &str, extension: &str) -> Result<ObjectKey, Trouble> {
    let folder = match agency {
        None => "unknown".to_owned(),
        Some(agency) if is_plain(agency) => agency.to_owned(),
        Some(agency) => format!("agency-{}", &sha256_hex(agency.as_bytes())[..32]),
    };
    Ok(ObjectKey::new(&["audio", &folder, &format!("{sid}.{extension}")])?)
}

async fn digest(object: Object) -> Result<String, Trouble> {
    let fold = |mut hash: Sha256, piece: bytes::Bytes| {
        hash.update(&piece);
        std::future::ready(Ok(hash))
    };
    let hash = object.stream.try_fold(Sha256::new(), fold).await.map_err(ObjectsError::from)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
