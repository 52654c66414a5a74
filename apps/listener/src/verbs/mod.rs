//! The verbs of the command line.

pub(crate) mod add;
pub(crate) mod documents;
pub(crate) mod gaps;
pub(crate) mod listeners;
pub(crate) mod status;

use windlass_app::output::print_json;
use windlass_app::{AppError, Exit, Host, say};

use crate::home::Home;
use crate::office::OfficeError;
use crate::settings::Place;

/// Connects.
pub(crate) async fn home(host: &Host) -> Result<Home, AppError> {
    let place = Place::read(&host.environment)?;
    Ok(Home::open(&place, host.world.clone()).await?)
}

/// What was refused or is not there has an exit code of its own, and is said where errors are.
pub(crate) fn refused(error: OfficeError) -> Result<Exit, AppError> {
    match error {
        OfficeError::NotFound(what) => {
            eprintln!("{what}");
            Ok(Exit::NOT_FOUND)
        }
        OfficeError::Refused(wrong) => {
            wrong.iter().for_each(|why| eprintln!("refused: {why}"));
            Ok(Exit::REFUSED)
        }
        error => Err(error.into()),
    }
}

/// `init`
pub(crate) async fn init(host: &Host, home: &Home) -> Result<Exit, AppError> {
    home.ensure_indexes().await?;
    match host.json {
        true => print_json(&serde_json::json!({ "ready": true }))?,
        false => say!("the indexes are there; `windlass listener` starts the service"),
    }
    Ok(Exit::DONE)
}
