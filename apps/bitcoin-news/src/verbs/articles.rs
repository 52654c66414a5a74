//! `retry`, `drop`, `repair`, `clear`.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use windlass_app::output::plain;
use windlass_app::{AppError, Exit, Host, say};

use crate::app::Place;
use crate::operate::{self, Retried};

/// Which articles.
#[derive(Debug, Args)]
pub struct Which {
    /// Their ids
    #[arg(required_unless_present = "all")]
    ids: Vec<String>,
    /// All that failed or are tried later
    #[arg(long, conflicts_with = "ids")]
    all: bool,
}

pub async fn retry(host: &Host, place: &Place, which: Which) -> Result<Exit, AppError> {
    let (_, archive) = super::archive(host, place).await?;
    let ids = if which.all { operate::retryable(&archive).await? } else { which.ids };
    let mut exit = Exit::DONE;
    for id in &ids {
        match operate::retry(&archive, id).await? {
            Retried::Again => say!("{}: is tried again", plain(id)),
            Retried::TakenAway => exit = taken_away(id),
            Retried::Missing => exit = not_there(id),
        }
    }
    if ids.is_empty() {
        say!("no article has failed or is tried later");
    }
    Ok(exit)
}

pub async fn drop_out(host: &Host, place: &Place, ids: &[String]) -> Result<Exit, AppError> {
    let (_, archive) = super::archive(host, place).await?;
    let mut exit = Exit::DONE;
    for id in ids {
        match operate::drop_out(&archive, id).await? {
            true => say!("{}: was taken away", plain(id)),
            false => exit = not_there(id),
        }
    }
    Ok(exit)
}

fn taken_away(id: &str) -> Exit {
    eprintln!("{}: was taken away by `drop`, and does not come back", plain(id));
    Exit::REFUSED
}

fn not_there(id: &str) -> Exit {
    eprintln!(
        "{}: there is no such article; `windlass bitcoin-news kv get BTC_ID_INDEX` lists them",
        plain(id)
    );
    Exit::NOT_FOUND
}

pub async fn repair(host: &Host, place: &Place) -> Result<Exit, AppError> {
    let (_, archive) = super::archive(host, place).await?;
    match archive.repair().await? {
        0 => say!("every article that is not over has its job"),
        1 => say!("1 article had no job and was given one"),
        more => say!("{more} articles had no job and were given one"),
    }
    Ok(Exit::DONE)
}

pub async fn clear(host: &Host, place: &Place, yes: bool) -> Result<Exit, AppError> {
    let (_, archive) = super::archive(host, place).await?;
    let count = archive.articles.count("").await?.total();
    if !yes && !asked(count)? {
        eprintln!("nothing was changed");
        return Ok(Exit::REFUSED);
    }
    let gone = operate::clear(&archive).await?;
    say!("{gone} articles were deleted, with all that was remembered of them");
    Ok(Exit::DONE)
}

fn asked(count: u64) -> Result<bool, AppError> {
    eprint!("Delete {count} articles, and all that is remembered of them? Type yes: ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    if !std::io::stdin().is_terminal() {
        eprintln!();
    }
    Ok(line.trim().eq_ignore_ascii_case("yes"))
}
