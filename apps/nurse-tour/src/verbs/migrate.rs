//! `windlass nurse-tour migrate`

use windlass_app::output::print_json;
use windlass_app::{AppError, Exit, Host, say};

use super::database;
use crate::schema;

/// Adds what the database lacks.
pub(crate) async fn run(host: &Host) -> Result<Exit, AppError> {
    let (pool, _) = database(host)?;
    let added = schema::migrate(&pool).await?;
    if host.json {
        print_json(&serde_json::json!({ "added": added }))?;
        return Ok(Exit::DONE);
    }
    for what in &added {
        say!("added: {what}");
    }
    say!("{}", if added.is_empty() { "nothing was missing" } else { "the database is ready" });
    Ok(Exit::DONE)
}
