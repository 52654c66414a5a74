//! `windlass vela import SHOP FILE`: changes listings as the rows say.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_app::output::{plain, print_json};
use windlass_app::{AppError, Exit, Host, say};

use super::{of_variant, office, typed, words};
use crate::csv;
use crate::shop::ShopId;

/// Columns that are there to be looked at.
const READ_ONLY: [&str; 3] = ["listing_id", "variant", "status"];

pub(crate) async fn run(host: &Host, shop: ShopId, file: &Path) -> Result<Exit, AppError> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        let cannot = |error| format!("{} cannot be read: {error}", file.display());
        std::fs::read_to_string(file).map_err(cannot)?
    };
    let mut rows = csv::read(&text)?.into_iter();
    let head = rows.next().ok_or("the file is empty: its first line must name the columns")?;
    let at = |name: &str| head.iter().position(|column| column == name);
    let id_at = at("listing_id").ok_or("the file has no column listing_id")?;
    let (variant_at, office) = (at("variant"), office(host).await?);
    let (mut changed, mut same, mut wrong) = (0_u64, 0_u64, Vec::new());
    for (line, row) in rows.enumerate() {
        let cell = |at: usize| row.get(at).map(|cell| cell.trim()).unwrap_or_default();
        let Ok(listing) = cell(id_at).parse() else {
            wrong.push(format!("row {}: listing_id is not a number", line + 2));
            continue;
        };
        let fields = head.iter().enumerate().filter(|(at, name)| {
            !READ_ONLY.contains(&name.as_str()) && !name.is_empty() && !cell(*at).is_empty()
        });
        let fields: Map<String, Value> =
            fields.map(|(at, name)| (name.clone(), typed(name, cell(at)))).collect();
        let variant = variant_at.map(cell).filter(|variant| !variant.is_empty());
        // A state that a row merely repeats must not be a wish.
        match office.edit(shop, listing, &of_variant(variant, known(fields, variant))).await {
            Ok(edited) if edited.task.is_some() => changed += 1,
            Ok(_) => same += 1,
            Err(error) => wrong.push(format!("row {} (listing {listing}): {}", line + 2, words(error).1)),
        }
    }
    if host.json {
        print_json(&json!({"changed": changed, "same": same, "wrong": wrong}))?;
    } else {
        say!("{changed} changed, {same} as they were, {} not taken", wrong.len());
        wrong.iter().for_each(|line| eprintln!("{}", plain(line)));
    }
    Ok(if wrong.is_empty() { Exit::DONE } else { Exit::REFUSED })
}

/// What a row can change: the states that sellers cannot set are as they are.
fn known(mut fields: Map<String, Value>, variant: Option<&str>) -> Map<String, Value> {
    let is_set = |state: &Value| ["active", "inactive"].iter().any(|known| state == known);
    if variant.is_some() || fields.get("state").is_some_and(|state| !is_set(state)) {
        fields.remove("state");
    }
    fields
}
