//! `windlass vela task KIND SHOP`

use serde_json::json;
use windlass_app::output::print_json;
use windlass_app::{AppError, Exit, Host, say};

use super::office;
use crate::shop::ShopId;
use crate::task::TaskKind;

pub(crate) async fn run(host: &Host, kind: TaskKind, shop: ShopId) -> Result<Exit, AppError> {
    let office = office(host).await?;
    if office.shelves.shops.get(shop).await?.is_none() {
        eprintln!("error: shop {shop} is not known; connect it with `windlass vela connect {shop}`");
        return Ok(Exit::NOT_FOUND);
    }
    let asked = office.tasks.ask(kind, shop).await?;
    if host.json {
        print_json(&json!({"id": asked.id, "type": kind, "shop_id": shop, "was_there": asked.was_there}))?;
    } else if asked.was_there {
        say!("{}  is there already", asked.id);
    } else {
        say!("{}  {kind} of shop {shop}", asked.id);
    }
    Ok(Exit::DONE)
}
