//! The store: opened, asked, closed.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::store::{Risk, WakeFns};
use windlass_core::time::{Clock, Time};
use windlass_core::timekeeper::Timekeeper;
use windlass_core::wake::Work;

use crate::desk::{Change, Desk, Sheet};
use crate::file::StoreFile;
use crate::lock::Lock;
use crate::mark::MarkFile;
use crate::opening::{self, Opening};
use crate::options::{OnOpen, Options};
use crate::writer::Writer;

/// So much has to be free beside the document: it grows.
const ROOM_BYTES_MIN: u64 = 64 * 1024;

/// How many events are kept. Every change writes them all, so they are far
/// fewer than in other stores.
pub const EVENTS_KEPT: usize = 2_000;

/// A store on one JSON file. It closes when it is dropped: what was asked for
/// is written, and the file is free for the next.
pub struct JsonStore {
    desk: Arc<Desk>,
    clock: Arc<dyn Clock>,
    jobs_max: usize,
    records_max: usize,
    keeps_records: bool,
    age_ms_max: Option<u64>,
    opening: Opening,
    pub(crate) wakes: WakeFns,
    on_open: OnOpen,
    file: StoreFile,
    writer: Option<JoinHandle<()>>,
}

impl JsonStore {
    /// Opens the store at `path`, and makes it when there is none.
    pub async fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Arc<Self>, StoreError> {
        let file = StoreFile::new(path.as_ref(), options.on_damage);
        let opened = tokio::task::spawn_blocking(move || Self::open_now(file, options));
        match opened.await {
            Ok(store) => store.map(Arc::new),
            Err(error) => Err(StoreError::Unavailable(format!("opening the store was cut short: {error}"))),
        }
    }

    fn open_now(file: StoreFile, options: Options) -> Result<Self, StoreError> {
        let lock = Lock::take(&file.lock())?;
        let (content, opening) = opening::load(&file, &options)?;
        let keeps_records = options.layout.keeps_records();
        let mark = layout_mark(&file, &options);
        let Options { clock, jobs_max, records_max, layout, on_open, age_ms_max, .. } = options;
        let timekeeper = content.timekeeper.unwrap_or_else(|| Timekeeper::begin(clock.as_ref()));
        let desk = Arc::new(Desk::new(Sheet { book: content.book, timekeeper }));
        let writer = Writer {
            desk: desk.clone(),
            file: file.clone(),
            layout,
            clock: clock.clone(),
            last: Vec::new(),
            is_there: file.is_there(),
            writes: content.writes,
            mark,
            lock,
        };
        let thread = std::thread::Builder::new().name("windlass-json".to_owned()).spawn(move || writer.run());
        let writer = thread.map_err(|error| {
            StoreError::Unavailable(format!("the writer's thread does not start: {error}"))
        })?;
        Ok(Self {
            desk,
            clock,
            jobs_max,
            records_max,
            keeps_records,
            age_ms_max,
            opening,
            wakes: WakeFns::default(),
            on_open,
            file,
            writer: Some(writer),
        })
    }

    /// What was found when the store was opened. Whoever runs it should say so
    /// when a copy had to be taken.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Forgets everything, durably. For tests, which reuse a store.
    #[doc(hidden)]
    pub async fn clear(&self) -> Result<(), StoreError> {
        self.write(|book, _| {
            let instance = book.epoch().instance;
            *book = Book::new();
            book.begin(instance);
            Ok(Change { answer: (), changed: true })
        })
        .await
    }

    /// How many changes were asked for, written or not. For tests.
    #[doc(hidden)]
    pub fn drafted(&self) -> u64 {
        self.desk.drafted()
    }

    /// How many callers wait for the disk. For tests.
    #[doc(hidden)]
    pub fn waiting(&self) -> usize {
        self.desk.waiting()
    }

    /// What the disk says of the room that it has, if it does.
    fn disk(&self) -> Option<rustix::fs::StatVfs> {
        let folder = self.file.path().parent().filter(|folder| !folder.as_os_str().is_empty());
        rustix::fs::statvfs(folder.unwrap_or(Path::new("."))).ok()
    }

    /// That there is little room left, if that is so.
    pub(crate) fn little_room(&self) -> Option<Risk> {
        let (disk, path) = (self.disk()?, self.file.path());
        let all = disk.f_blocks * disk.f_frsize;
        Risk::of_disk(&path.display().to_string(), disk.f_bavail * disk.f_frsize, all)
    }

    /// Refuses when the disk has no room for the document beside the one that is there. A file system that does not tell is
    /// taken to have room; a write will find out.
    pub(crate) fn has_room(&self) -> Result<(), StoreError> {
        let path = self.file.path();
        let Some(disk) = self.disk() else { return Ok(()) };
        let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
        let read_only = disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
        if !read_only && disk.f_bavail * disk.f_frsize >= bytes + ROOM_BYTES_MIN {
            return Ok(());
        }
        Err(StoreError::CannotWrite(format!(
            "there is no room left on the disk of {}, or it may not be written to; free some space",
            path.display()
        )))
    }

    pub(crate) fn jobs_max(&self) -> usize {
        self.jobs_max
    }

    pub(crate) fn records_max(&self) -> usize {
        self.records_max
    }

    /// Whether records have a place in the document.
    pub(crate) fn keeps_records(&self) -> bool {
        self.keeps_records
    }

    /// Finished jobs that were accepted before this are too old to be kept.
    pub(crate) fn oldest_kept(&self, now: Time) -> Option<Time> {
        self.age_ms_max.map(|ms| now.plus_ms(-i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Lets go of documents that were set aside long ago.
    pub(crate) async fn prune_aside(&self) {
        let (file, oldest) = (self.file.clone(), self.oldest_kept(self.clock.wall()));
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || file.prune_aside(oldest)).await {
            tracing::warn!(%error, "what was set aside could not be pruned");
        }
    }

    /// Ends what nobody will go on with. Refused by a store that is broken,
    /// whose next opening does it.
    fn end_unfinished(&self) {
        if self.on_open != OnOpen::FailUnfinished {
            return;
        }
        let ended = self.desk.change(|book, timekeeper| {
            let answer = book.end_by_restart(timekeeper.now(self.clock()));
            Ok(Change { answer, changed: answer > 0 })
        });
        if let Err(error) = ended {
            tracing::error!(%error, "unfinished jobs could not be ended");
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// Looks at what is durable.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Book, Time) -> T) -> Result<T, StoreError> {
        let Sheet { book, timekeeper } = self.desk.durable()?;
        Ok(look(&book, timekeeper.now(self.clock())))
    }

    /// Changes the book, and answers when that is durable.
    pub(crate) async fn write<T>(
        &self,
        change: impl FnOnce(&mut Book, Time) -> Result<Change<T>, StoreError>,
    ) -> Result<T, StoreError> {
        let at_now =
            |book: &mut Book, timekeeper: &mut Timekeeper| change(book, timekeeper.now(self.clock()));
        Ok(self.write_with(at_now).await?.0)
    }

    /// As [`Self::write`]; whoever waits for this work is told when something changed.
    pub(crate) async fn write_and_wake<T>(
        &self,
        work: Work,
        change: impl FnOnce(&mut Book, Time) -> Result<Change<T>, StoreError>,
    ) -> Result<T, StoreError> {
        let at_now =
            |book: &mut Book, timekeeper: &mut Timekeeper| change(book, timekeeper.now(self.clock()));
        let (answer, changed) = self.write_with(at_now).await?;
        if changed {
            self.wake(&work);
        }
        Ok(answer)
    }

    /// Changes book and timekeeper, and answers when that is durable, and
    /// whether anything changed.
    pub(crate) async fn write_with<T>(
        &self,
        change: impl FnOnce(&mut Book, &mut Timekeeper) -> Result<Change<T>, StoreError>,
    ) -> Result<(T, bool), StoreError> {
        let bounded = |book: &mut Book, timekeeper: &mut Timekeeper| {
            let answer = change(book, timekeeper)?;
            book.keep_events(EVENTS_KEPT);
            Ok(answer)
        };
        let (answer, changed, promise) = self.desk.change(bounded)?;
        let Some(promise) = promise else { return Ok((answer, changed)) };
        match promise.await {
            Ok(outcome) => outcome.map(|()| (answer, changed)),
            Err(_) => Err(StoreError::Unavailable("the store's writer has ended".to_owned())),
        }
    }

    pub(crate) fn wake(&self, work: &Work) {
        for wake in self.wakes.all() {
            wake(work);
        }
    }
}

/// The mark of a document whose layout keeps epochs.
fn layout_mark(file: &StoreFile, options: &Options) -> Option<MarkFile> {
    options.layout.keeps_epochs().then(|| MarkFile::new(file, options.clock.boot_id()))
}

impl Drop for JsonStore {
    fn drop(&mut self) {
        self.end_unfinished();
        self.desk.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer had panicked");
        }
    }
}
