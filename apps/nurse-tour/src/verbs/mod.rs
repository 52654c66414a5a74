//! What the operator can ask for, a file each.

pub(crate) mod check;
pub(crate) mod migrate;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod status;
pub(crate) mod webhook;
pub(crate) mod work;

use std::sync::Arc;

use deadpool_postgres::Pool;
use windlass_app::log::LogForm;
use windlass_app::{AppError, Host};
use windlass_engine::world::RealWorld;
use windlass_outside::secret::Secret;

use crate::database::DatabaseError;
use crate::names::Names;
use crate::schema;
use crate::settings::Settings;

/// The database that the settings name, and where it is.
fn database(host: &Host) -> Result<(Pool, Secret<String>), AppError> {
    let url = Settings::read_database(&host.environment)?;
    Ok((pool(host, &url)?, url))
}

fn pool(host: &Host, url: &Secret<String>) -> Result<Pool, AppError> {
    let pool = host.stores.pool(url);
    Ok(pool.map_err(|error| format!("DATABASE_URL cannot be used: {error}"))?)
}

/// Refuses a database that lacks something: every message would fail on it.
async fn is_migrated(pool: &Pool) -> Result<(), AppError> {
    let missing = schema::missing(pool).await?;
    if let Some(first) = missing.first() {
        let (what, more) = (&first.what, more(missing.len()));
        let next = "run `windlass nurse-tour migrate`, or look with `check`";
        return Err(format!("the database lacks {what}{more}; {next}").into());
    }
    fits(schema::wrong(pool).await?)
}

/// Refuses a table that does not know the words with which a message is claimed and ends: whatever is paid for would be
/// over without an end. The webhook, which writes none of them, is of use all the same.
async fn knows_our_words(pool: &Pool) -> Result<(), AppError> {
    fits(schema::unknown_words(pool).await?)
}

fn fits(wrong: Vec<String>) -> Result<(), AppError> {
    let Some(first) = wrong.first() else { return Ok(()) };
    let more = more(wrong.len());
    let next = "look with `windlass nurse-tour check`";
    Err(format!("the database does not fit: {first}{more}; {next}").into())
}

fn more(count: usize) -> String {
    match count - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    }
}

/// Whether the database did not answer, and may later.
fn is_away(error: &AppError) -> bool {
    error.downcast_ref::<DatabaseError>().is_some_and(DatabaseError::is_transient)
}

fn start_logging(host: &Host, form: LogForm, worker: Option<(String, Arc<Names>)>) {
    let debug = Settings::read_debug(&host.environment);
    crate::log::log(form, debug, Arc::new(RealWorld::new()), worker).out(std::io::stdout()).start();
}
