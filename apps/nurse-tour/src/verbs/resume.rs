//! `windlass nurse-tour resume`

use windlass_app::output::{plain, print_json};
use windlass_app::{AppError, Exit, Host, say};

use super::database;
use crate::resume::resume;

/// Lifts what had stopped the claiming.
pub(crate) async fn run(host: &Host) -> Result<Exit, AppError> {
    let lifted = resume(&database(host)?.0).await?;
    if host.json {
        print_json(&serde_json::json!({ "lifted": lifted }))?;
        return Ok(Exit::DONE);
    }
    for what in &lifted {
        say!("lifted: {}", plain(what));
    }
    say!("{}", if lifted.is_empty() { "nothing had stopped" } else { "workers try again at once" });
    Ok(Exit::DONE)
}
