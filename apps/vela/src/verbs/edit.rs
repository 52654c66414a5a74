//! `windlass vela edit SHOP LISTING FIELD=VALUE…`

use serde_json::{Map, Value, json};
use windlass_app::output::print_json;
use windlass_app::{AppError, Exit, Host, say};

use super::{of_variant, office, typed, words};
use crate::office::view;
use crate::shop::{ListingId, ShopId};

pub(crate) async fn run(
    host: &Host,
    shop: ShopId,
    listing: ListingId,
    fields: &[String],
    variant: Option<&str>,
    accept_fee: bool,
) -> Result<Exit, AppError> {
    let mut wanted: Map<String, Value> = Map::new();
    for field in fields {
        let Some((name, value)) = field.split_once('=') else {
            eprintln!("error: {field:?} is not FIELD=VALUE, such as title=\"New hat\"; nothing was changed");
            return Ok(Exit::REFUSED);
        };
        wanted.insert(name.to_owned(), typed(name, value));
    }
    let mut wanted = of_variant(variant, wanted);
    wanted.insert("accept_fee".to_owned(), json!(accept_fee));
    let office = office(host).await?;
    match office.edit(shop, listing, &wanted).await {
        Err(error) => {
            let (exit, text) = words(error);
            eprintln!("error: {text}");
            Ok(exit)
        }
        Ok(edited) => {
            if host.json {
                let sections = office.sections(shop).await?.unwrap_or_default();
                print_json(&view(&edited.listing, &sections))?;
            } else if edited.task.is_some() {
                say!("listing {listing} of shop {shop} will be sent");
            } else {
                say!("listing {listing} of shop {shop} is so already; nothing was changed");
            }
            Ok(Exit::DONE)
        }
    }
}
