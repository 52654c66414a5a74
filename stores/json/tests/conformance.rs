//! The promises of a store, on a JSON file in a temporary folder.

use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use tempfile::TempDir;
use windlass_core::error::StoreError;
use windlass_core::incarnation::Mark;
use windlass_core::store::Store;
use windlass_json::{JsonStore, Options};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::subject::Subject;

struct JsonSubject {
    folder: TempDir,
    clock: FakeClock,
    open: Mutex<Weak<JsonStore>>,
}

#[async_trait]
impl Subject for JsonSubject {
    const NAME: &'static str = "json";
    const SHARED: bool = false;
    const REWRITES: bool = true;
    const CUTS: bool = true;

    async fn create(clock: FakeClock) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        Self { folder, clock, open: Mutex::default() }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let options = Options::new(Arc::new(self.clock.clone()));
        let store = JsonStore::open_with(self.folder.path().join("jobs.json"), options).await?;
        *self.open.lock().expect("no test panics with it") = Arc::downgrade(&store);
        Ok(store)
    }

    async fn cut(&self) {
        // As if the newest writes were gone from the file.
        let path = self.folder.path().join("jobs.json.mark");
        let mut mark = Mark::read(&std::fs::read(&path).expect("a mark")).expect("a whole mark");
        mark.commits += 3;
        std::fs::write(&path, mark.to_bytes()).expect("a mark");
    }

    async fn wipe(&self) {
        let open = self.open.lock().expect("no test panics with it").upgrade();
        open.expect("a store that is open").clear().await.expect("an empty store");
    }
}

windlass_testkit::conformance!(JsonSubject);
