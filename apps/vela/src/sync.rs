//! What all tasks share: the store, Etsy, the gate before it and the keys to it.

use std::sync::Arc;

use windlass_app::AppError;
use windlass_engine::world::World;
use windlass_engine::{Client, Store};
use windlass_outside::etsy::{AppKey, Etsy};
use windlass_outside::safe_http::{Guard, Http, Limits};

use crate::book::Shelves;
use crate::gate::Gate;
use crate::keyring::Keyring;
use crate::settings::{EtsySettings, TaskSettings};
use crate::tasks::Tasks;

/// What all tasks share.
pub struct Sync {
    pub(crate) client: Client,
    pub(crate) shelves: Shelves,
    pub(crate) world: Arc<dyn World>,
    pub(crate) etsy: Etsy,
    pub(crate) gate: Gate,
    pub(crate) keyring: Keyring,
    pub(crate) tasks: Tasks,
}

impl Sync {
    /// Puts it together. Nothing is asked of anybody yet.
    pub fn new(
        store: Arc<dyn Store>,
        world: Arc<dyn World>,
        etsy: &EtsySettings,
        tasks: &TaskSettings,
    ) -> Result<Self, AppError> {
        let client = Client::in_world(store, world.clone());
        let shelves = Shelves::of(&client);
        Ok(Self {
            etsy: etsy_client(etsy)?,
            gate: Gate::new(client.clone(), shelves.ledgers.clone(), world.clone(), etsy),
            keyring: Keyring::new(client.clone(), shelves.connections.clone(), world.clone()),
            tasks: Tasks::new(client.clone(), world.clone(), tasks.clone()),
            client,
            shelves,
            world,
        })
    }
}

/// The client of Etsy that the settings describe.
pub fn etsy_client(settings: &EtsySettings) -> Result<Etsy, AppError> {
    let cannot = |name: &str, why| AppError::from(format!("{name} cannot be used: {why}"));
    let guard = Guard::new().allow(&settings.base).map_err(|why| cannot("ETSY_BASE_URL", why))?;
    let guard = guard.allow(&settings.token_url).map_err(|why| cannot("ETSY_TOKEN_URL", why))?;
    let key = AppKey { keystring: settings.keystring.clone(), shared_secret: settings.shared_secret.clone() };
    let limits = Limits { total: settings.timeout, ..Limits::default() };
    let (base, token_url) = (settings.base.clone(), settings.token_url.clone());
    Ok(Etsy::new(Http::new(guard), base, token_url, key, limits))
}
