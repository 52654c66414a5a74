//! `status`.

use windlass_app::output::{plain, print_json};
use windlass_app::{AppError, Exit, Host, say};

use crate::app::Place;
use crate::status::Status;

pub async fn run(host: &Host, place: &Place) -> Result<Exit, AppError> {
    let (_, archive) = super::archive(host, place).await?;
    let status = Status::look(&archive).await?;
    match host.json {
        true => print_json(&status)?,
        false => status.text().lines().for_each(|line| say!("{}", plain(line))),
    }
    Ok(Exit::DONE)
}
