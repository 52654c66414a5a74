//! `windlass nurse-tour retry`

use clap::Args;
use windlass_app::output::{plain, print_json};
use windlass_app::{AppError, Exit, Host, say};

use super::database;
use crate::retry::{Retried, retry, retry_all_failed};

/// Which messages.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Twilio's ids of the messages
    #[arg(value_name = "SID", required_unless_present = "all_failed", conflicts_with = "all_failed")]
    sids: Vec<String>,
    /// All that have failed; those that wait for a person stay
    #[arg(long)]
    all_failed: bool,
}

/// Tries messages again that are over.
pub(crate) async fn run(host: &Host, which: &Which) -> Result<Exit, AppError> {
    let (pool, _) = database(host)?;
    if which.all_failed {
        let count = retry_all_failed(&pool).await?;
        if host.json {
            print_json(&serde_json::json!({ "retried": count }))?;
        } else {
            say!("{count} message{} tried again", if count == 1 { " is" } else { "s are" });
        }
        return Ok(Exit::DONE);
    }
    let mut exit = Exit::DONE;
    for (sid, answer) in which.sids.iter().zip(retry(&pool, &which.sids).await?) {
        let (word, text, worse) = match &answer {
            Retried::Yes => ("retried", "is tried again".to_owned(), Exit::DONE),
            Retried::NotOver(status) => {
                ("not_over", format!("is {status}; nothing was changed"), Exit::REFUSED)
            }
            Retried::NotFound => ("not_found", "is not there".to_owned(), Exit::NOT_FOUND),
        };
        let sid = plain(sid);
        if host.json {
            print_json(&serde_json::json!({ "message_sid": sid, "answer": word }))?;
        } else {
            say!("{sid} {text}");
        }
        exit = exit.worst(worse);
    }
    Ok(exit)
}
