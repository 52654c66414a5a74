//! The operator's verbs, a file for each kind.

pub mod articles;
pub mod check;
pub mod import;
pub mod kv;
pub mod once;
pub mod status;

use windlass_app::{AppError, Host};
use windlass_engine::Client;

use crate::app::Place;
use crate::archive::Archive;
use crate::server::open;
use crate::settings::{Roles, Settings};

/// What a verb that only looks needs: the settings, and where everything is kept.
async fn archive(host: &Host, place: &Place) -> Result<(Settings, Archive), AppError> {
    let settings = Settings::read(&host.environment, Roles::NONE)?;
    let store = open(host, place).await?;
    let archive = Archive::new(Client::in_world(store, host.world.clone()), settings.bounds);
    Ok((settings, archive))
}
