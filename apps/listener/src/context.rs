//! What the parts of an instance share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc, watch};
use windlass_app::Stop;

use crate::home::Home;
use crate::job::NewJob;
use crate::lane::{Lane, Registry};
use crate::metrics::Metrics;
use crate::settings::Work;
use crate::token::Token;

/// How many batches may wait for their status to be written. Then the stream waits.
const STATUS_BATCHES_MAX: usize = 8;

/// One instance.
pub(crate) struct Context {
    pub(crate) home: Home,
    pub(crate) work: Work,
    /// The name of this instance, different at each start.
    pub(crate) instance: String,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) stop: Stop,
    /// Somebody should look for listeners without an owner.
    pub(crate) claim_now: Notify,
    /// Somebody should look for documents that want to be done again.
    pub(crate) recover_now: Notify,
    /// Lanes that are to be caught up.
    pub(crate) behind: mpsc::UnboundedSender<Lane>,
    /// Batches whose status is to be written.
    pub(crate) statuses: mpsc::Sender<Vec<NewJob>>,
    /// Where the shared stream is.
    pub(crate) shared: watch::Sender<Option<Token>>,
    /// When the shared stream last told anything, by the clock since boot.
    pub(crate) heard_boot_ms: AtomicU64,
    /// Until when our leases hold, by the clock since boot.
    pub(crate) lease_until_boot_ms: AtomicU64,
    /// When the listeners were last looked at.
    pub(crate) listed_boot_ms: AtomicU64,
    /// When what is left of listeners that are gone was last looked for.
    pub(crate) forgot_boot_ms: AtomicU64,
    pub(crate) is_open: Arc<AtomicBool>,
    /// Listeners that were refused at the last look at them, by id, and why.
    pub(crate) refused: Mutex<BTreeMap<String, String>>,
}

/// The other ends of what a context sends to.
pub(crate) struct Ends {
    pub(crate) behind: mpsc::UnboundedReceiver<Lane>,
    pub(crate) statuses: mpsc::Receiver<Vec<NewJob>>,
}

impl Context {
    pub(crate) fn new(home: Home, work: Work, stop: Stop) -> (Arc<Self>, Ends) {
        let (behind, behind_end) = mpsc::unbounded_channel();
        let (statuses, statuses_end) = mpsc::channel(STATUS_BATCHES_MAX);
        let chance = (home.world.chance(), home.world.chance());
        let name = work.instance.as_deref().unwrap_or("listener");
        let instance = format!("{name}-{:016x}{:016x}", chance.0, chance.1);
        home.named(&instance);
        let context = Self {
            instance,
            heard_boot_ms: AtomicU64::new(home.world.boot_ms()),
            listed_boot_ms: AtomicU64::new(home.world.boot_ms()),
            lease_until_boot_ms: AtomicU64::new(0),
            forgot_boot_ms: AtomicU64::new(0),
            home,
            work,
            stop,
            behind,
            statuses,
            registry: Registry::default(),
            metrics: Metrics::default(),
            claim_now: Notify::new(),
            recover_now: Notify::new(),
            shared: watch::Sender::new(None),
            is_open: Arc::new(AtomicBool::new(false)),
            refused: Mutex::new(BTreeMap::new()),
        };
        (Arc::new(context), Ends { behind: behind_end, statuses: statuses_end })
    }

    /// Whether what we hold is ours for certain. One that slept past its lease writes nothing.
    pub(crate) fn holds(&self) -> bool {
        self.home.world.boot_ms() < self.lease_until_boot_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn heard(&self) {
        self.heard_boot_ms.store(self.home.world.boot_ms(), Ordering::Relaxed);
    }

    /// Waits, or until it is time to end. False when it is.
    pub(crate) async fn pause(&self, ms: u64) -> bool {
        tokio::select! {
            () = self.home.world.sleep_ms(ms) => true,
            () = self.stop.wait() => false,
        }
    }
}
