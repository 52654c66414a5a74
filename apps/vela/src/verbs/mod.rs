//! What can be asked for on the command line, a file each.

pub(crate) mod check;
pub(crate) mod connect;
pub(crate) mod edit;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod shop;
pub(crate) mod shops;
pub(crate) mod task;

use serde_json::{Map, Value, json};
use windlass_app::output::plain;
use windlass_app::{AppError, Exit, Host};
use windlass_engine::{Client, Time};

use crate::office::{EditError, Office};
use crate::settings::{self, TaskSettings};
use crate::tasks::Tasks;

/// The shops of the store that the settings name.
async fn office(host: &Host) -> Result<Office, AppError> {
    let (tasks, store) =
        settings::read(&host.environment, |reading| (TaskSettings::read(reading), settings::store(reading)))?;
    let store = host.stores.open(&store).await?;
    store.records()?;
    let client = Client::in_world(store, host.world.clone());
    let tasks = Tasks::new(client.clone(), host.world.clone(), tasks);
    Ok(Office::new(client, tasks))
}

/// A value as people write it: words of lists are parted by commas.
pub(crate) fn typed(field: &str, text: &str) -> Value {
    let words = || text.split(',').map(str::trim).filter(|word| !word.is_empty());
    match field {
        "tags" | "materials" => json!(words().collect::<Vec<_>>()),
        "image_ids" => words().map(|word| word.parse::<u64>().map_or(json!(word), |id| json!(id))).collect(),
        "is_supply" | "is_taxable" | "should_auto_renew" | "is_enabled" => match text {
            "true" | "1" | "yes" => json!(true),
            "false" | "0" | "no" => json!(false),
            _ => json!(text),
        },
        "shipping_profile_id" | "return_policy_id" | "taxonomy_id" => {
            text.trim().parse::<u64>().map_or(json!(text), |id| json!(id))
        }
        _ => json!(text),
    }
}

/// Fields of a variant, or of the listing itself.
pub(crate) fn of_variant(variant: Option<&str>, fields: Map<String, Value>) -> Map<String, Value> {
    match variant {
        None => fields,
        Some(variant) => Map::from_iter([("variants".to_owned(), json!({ variant: fields }))]),
    }
}

/// Why an edit was not made, for people.
fn words(error: EditError) -> (Exit, String) {
    match error {
        EditError::NotFound => (
            Exit::NOT_FOUND,
            "there is no such listing in this shop; look with `windlass vela export SHOP`".to_owned(),
        ),
        EditError::Deleted => (Exit::REFUSED, "the listing is gone at Etsy; nothing was changed".to_owned()),
        EditError::Wrong(wrong) => {
            let words: Vec<String> = wrong.iter().map(|(name, why)| format!("{name} {why}")).collect();
            (Exit::REFUSED, format!("nothing was changed: {}", plain(&words.join("; "))))
        }
        EditError::Shelf(error) => (Exit::FAILED, error.to_string()),
    }
}

fn moment(time: Option<&Time>) -> String {
    time.map_or_else(|| "-".to_owned(), ToString::to_string)
}
