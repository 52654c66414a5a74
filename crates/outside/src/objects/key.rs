//! The name of an object, built from ids.

use std::fmt;

use super::ObjectsError;

const PARTS_MAX: usize = 8;
const PART_BYTES_MAX: usize = 128;

/// The name of an object: folders and a file name, each of letters, digits,
/// `_`, `-` and `.`, none of them beginning with a dot. So no name leads out
/// of its store, and each means the same object in a folder and in a bucket.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectKey {
    parts: Vec<String>,
}

impl ObjectKey {
    /// Builds a name from its parts, which came from data.
    pub fn new<S: AsRef<str>>(parts: &[S]) -> Result<Self, ObjectsError> {
        let fits =
            !parts.is_empty() && parts.len() <= PARTS_MAX && parts.iter().all(|part| is_plain(part.as_ref()));
        if !fits {
            return Err(ObjectsError::Key);
        }
        Ok(Self { parts: parts.iter().map(|part| part.as_ref().to_owned()).collect() })
    }

    /// The name with slashes between its parts.
    pub fn path(&self) -> String {
        self.parts.join("/")
    }

    /// A whole name that somebody else wrote: its folders may begin with a dot, and none leads upwards.
    pub(super) fn whole(name: &str) -> Result<Self, ObjectsError> {
        let parts: Vec<String> = name.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let fits = |part: &String| is_plain(part.strip_prefix('.').unwrap_or(part));
        match !parts.is_empty() && parts.len() <= PARTS_MAX && parts.iter().all(fits) {
            true => Ok(Self { parts }),
            false => Err(ObjectsError::Key),
        }
    }

    /// The name without its first parts.
    pub(super) fn without(&self, count: usize) -> Self {
        Self { parts: self.parts[count..].to_vec() }
    }

    pub(super) fn parts(&self) -> &[String] {
        &self.parts
    }

    /// The folders, and the file name.
    pub(super) fn split(&self) -> (&[String], &str) {
        self.parts.split_last().map_or((&[], ""), |(name, folders)| (folders, name))
    }

    pub(super) fn below(&self, prefix: &[String]) -> Self {
        Self { parts: prefix.iter().chain(&self.parts).cloned().collect() }
    }
}

/// An id of a message or an agency is personal data: it is not printed by chance.
impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectKey({} parts)", self.parts.len())
    }
}

pub(super) fn is_plain(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !part.is_empty() && part.len() <= PART_BYTES_MAX && !part.starts_with('.') && part.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fault 64: names that could lead elsewhere are refused.
    #[test]
    fn fault_64_only_plain_parts() {
        assert_eq!(
            ObjectKey::new(&["audio", "agency-1", "SM1.ogg"]).unwrap().path(),
            "audio/agency-1/SM1.ogg"
        );
        for part in
            ["", ".", "..", ".hidden", "a/b", "/etc", "a\\b", "a\0b", "a b", "ä", "a\n", "%2e%2e", "~"]
        {
            assert_eq!(ObjectKey::new(&["audio", part]).unwrap_err(), ObjectsError::Key, "{part:?}");
        }
        assert!(ObjectKey::new(&["x".repeat(129)]).is_err());
        assert!(ObjectKey::new(&["x"; 9]).is_err());
        assert!(ObjectKey::new::<&str>(&[]).is_err());
    }

    #[test]
    fn whole_names_of_others() {
        assert_eq!(
            ObjectKey::whole("/b1/.private/audio/SM1.ogg").unwrap().path(),
            "b1/.private/audio/SM1.ogg"
        );
        for name in ["", "/", "a/../b", "..", "a/./b", "a\0b", "..a/b", "a/ b"] {
            assert_eq!(ObjectKey::whole(name).unwrap_err(), ObjectsError::Key, "{name:?}");
        }
    }

    proptest! {
        /// Whatever is accepted stays below the folder that it is put into.
        #[test]
        fn fault_64_accepted_names_stay_below(parts in prop::collection::vec(".{0,8}", 1..4)) {
            if let Ok(key) = ObjectKey::new(&parts) {
                let path = std::path::PathBuf::from(key.path());
                let plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
                prop_assert!(plain && path.components().count() == parts.len());
            }
        }
    }
}
