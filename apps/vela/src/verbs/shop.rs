//! `windlass vela shop ID`

use serde_json::json;
use windlass_app::output::{plain, print_json};
use windlass_app::{AppError, Exit, Host, say};

use super::{moment, office};
use crate::shop::ShopId;
use crate::status::{self, TaskView};
use crate::task::TaskKind;

pub(crate) async fn run(host: &Host, shop: ShopId) -> Result<Exit, AppError> {
    let office = office(host).await?;
    let Some(status) = status::of_shop(&office.shelves, &office.tasks, shop).await? else {
        eprintln!("error: shop {shop} is not known; connect it with `windlass vela connect {shop}`");
        return Ok(Exit::NOT_FOUND);
    };
    let tasks: Vec<TaskView> = office.tasks.of_shop(shop).await?.iter().map(TaskView::of).collect();
    if host.json {
        print_json(&json!({"shop": status, "tasks": tasks}))?;
        return Ok(Exit::DONE);
    }
    say!("shop          {shop} {}", plain(status.name.as_deref().unwrap_or("")));
    say!("status        {}", status.status.as_str());
    say!("listings      {}", status.listings);
    say!("downloaded    {} of {}", status.downloaded, status.downloaded + status.to_download);
    say!("to upload     {}", status.to_upload);
    say!("refused       {}", status.refused);
    say!("every         {}", status.interval);
    for kind in TaskKind::ALL {
        say!("last {:<17} {}", kind.as_str(), moment(status.last_success_at.get(&kind)));
    }
    say!("next attempt  {}", moment(status.next_attempt_at.as_ref()));
    if let Some(error) = &status.last_error {
        let about = error.listing_id.map_or_else(String::new, |id| format!("listing {id}: "));
        say!("last error    {} {about}{} ({})", error.at, plain(&error.message), error.code);
    }
    for task in tasks {
        let reason = task.reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        say!("task          {} {} {}{reason}, attempt {}", task.id, task.kind, task.state, task.attempt);
    }
    Ok(Exit::DONE)
}
