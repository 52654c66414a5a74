//! What goes wrong with a file, and what must hold all the same. The numbers
//! are those of the list of faults.

mod child;
mod crash;
mod cut;
mod damage;
mod desk;
mod opening;
mod records;
mod time;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::error::StoreError;
use windlass_json::{JsonStore, Options};
use windlass_testkit::clock::FakeClock;

/// A folder with a place for a store.
struct Place {
    folder: tempfile::TempDir,
    clock: FakeClock,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), clock: FakeClock::default() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("jobs.json")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.folder.path().join(format!("jobs.json.{ending}"))
    }

    fn options(&self) -> Options {
        Options::new(Arc::new(self.clock.clone()))
    }

    async fn open(&self) -> Result<Arc<JsonStore>, StoreError> {
        JsonStore::open_with(self.file(), self.options()).await
    }

    async fn opened(&self) -> Arc<JsonStore> {
        self.open().await.expect("the store opens")
    }

    /// The names of all files, sorted.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes)
        .unwrap_or_else(|error| panic!("{} cannot be written: {error}", path.display()));
}
