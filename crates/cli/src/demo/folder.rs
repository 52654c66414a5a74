//! The folder of the demo, and what it remembers from one start to the next: ports and the time of the first.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use windlass_engine::core::time::Time;
use windlass_engine::world::World;

const NOTES: &str = "demo.json";
/// How long another demo is waited for: longer than its programs may take to end.
const WAIT_MS: u64 = 20_000;
/// How often it is looked for.
const LOOK_MS: u64 = 100;

/// The folder.
pub struct Folder {
    path: PathBuf,
    notes: Notes,
    is_new: bool,
    _lock: std::fs::File,
}

#[derive(Serialize, Deserialize)]
struct Notes {
    /// When the demo began.
    began_ms: i64,
    /// Addresses that are written down in what it keeps must be the same next time.
    ports: BTreeMap<String, u16>,
}

impl Folder {
    /// Opens it, or makes it. Another demo there is waited for: it may be ending, which takes as long as its programs.
    pub async fn open(path: &Path, world: &dyn World) -> anyhow::Result<Self> {
        let cannot =
            || format!("cannot keep the demo in {}; choose another folder with --folder", path.display());
        std::fs::create_dir_all(path.join("logs")).with_context(cannot)?;
        let path = path.canonicalize().with_context(cannot)?;
        let lock = std::fs::File::create(path.join("lock")).with_context(cannot)?;
        let until_ms = world.boot_ms() + WAIT_MS;
        let mut told = false;
        while lock.try_lock().is_err() {
            if !std::mem::replace(&mut told, true) {
                eprintln!("another demo is ending or running here; waiting");
            }
            if world.boot_ms() < until_ms {
                world.sleep_ms(LOOK_MS).await;
                continue;
            }
            anyhow::bail!(
                "a demo is running in {} already; end it first, or choose another folder with --folder",
                path.display()
            );
        }
        let file = path.join(NOTES);
        let notes = match std::fs::read(&file) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).with_context(|| {
                format!("{} cannot be read; delete the folder to begin anew", file.display())
            })?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(cannot),
        };
        let is_new = notes.is_none();
        let notes = notes.unwrap_or(Notes { began_ms: world.wall().ms(), ports: BTreeMap::new() });
        Ok(Self { path, notes, is_new, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is the first start.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// When the first start was.
    pub fn began(&self) -> Time {
        Time::from_ms(self.notes.began_ms)
    }

    /// The port of something: the one it had, else the one that is wished for, else any that is free.
    pub fn port(&mut self, name: &str, wish: u16) -> std::io::Result<u16> {
        let known = self.notes.ports.get(name).copied();
        let free =
            |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|held| held.local_addr());
        let found = known.and_then(|port| free(port).ok()).or_else(|| free(wish).ok());
        let port = found.map_or_else(|| free(0), Ok)?.port();
        self.notes.ports.insert(name.to_owned(), port);
        Ok(port)
    }

    /// Remembers it.
    pub fn save(&self) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(&self.notes)?;
        std::fs::write(self.path.join(NOTES), text).context("cannot remember the demo")
    }
}

#[cfg(test)]
mod tests {
    use windlass_engine::core::time::Clock;
    use windlass_engine::world::SimWorld;

    use super::*;

    #[tokio::test]
    async fn a_second_start_has_the_same_ports_and_two_at_once_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("demo");
        let world = SimWorld::new(1);
        let mut first = Folder::open(&place, &world).await.unwrap();
        let (began, port) = (world.wall(), first.port("etsy", 0).unwrap());
        first.save().unwrap();
        assert!(first.is_new());

        let waited = async {
            for _ in 0..WAIT_MS / LOOK_MS {
                tokio::task::yield_now().await;
                world.advance(LOOK_MS);
            }
        };
        let (refused, ()) = tokio::join!(Folder::open(&place, &world), waited);
        let Err(error) = refused else { panic!("two at once") };
        assert!(error.to_string().contains("--folder"), "{error}");
        assert_eq!(world.wall().ms_since(began), WAIT_MS, "it might have been about to end");

        let mut third = std::pin::pin!(Folder::open(&place, &world));
        assert!(futures::poll!(third.as_mut()).is_pending(), "it waits");
        drop(first);
        world.advance(LOOK_MS);
        let mut third = third.await.unwrap();
        assert!(!third.is_new() && third.began() == began);
        assert_eq!(third.port("etsy", 0).unwrap(), port);
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_ne!(third.port("etsy", 0).unwrap(), port, "somebody else has it");
        drop(held);
    }
}
