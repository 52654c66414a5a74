//! `windlass vela shops`

use windlass_app::output::{plain, print_json_lines, table};
use windlass_app::{AppError, Exit, Host, say};

use super::{moment, office};
use crate::status::{self, Status};

pub(crate) async fn run(host: &Host) -> Result<Exit, AppError> {
    let office = office(host).await?;
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = office.shelves.shops.scan().after(after).await?;
        let shops = page.entries.into_iter().map(|shop| shop.value).collect();
        all.extend(status::of_many(&office.shelves, &office.tasks, shops).await?);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    if host.json {
        print_json_lines(&all)?;
        return Ok(Exit::DONE);
    }
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    say!(
        "{}",
        table(&["shop", "name", "status", "downloaded", "to upload", "last success", "next", "error"], &rows)
    );
    Ok(Exit::DONE)
}

fn row(status: &Status) -> Vec<String> {
    let last = status.last_success_at.values().max();
    vec![
        status.shop_id.to_string(),
        plain(status.name.as_deref().unwrap_or("-")),
        status.status.as_str().to_owned(),
        format!("{}/{}", status.downloaded, status.downloaded + status.to_download),
        status.to_upload.to_string(),
        moment(last),
        moment(status.next_attempt_at.as_ref()),
        status.last_error.as_ref().map_or_else(String::new, |error| plain(&error.message)),
    ]
}
