//! `windlass vela export SHOP`: a row for each listing, or for each of its variants.

use serde_json::Value;
use windlass_app::{AppError, Exit, Host, say};

use super::office;
use crate::book::shop_prefix;
use crate::csv;
use crate::office::view;
use crate::shop::ShopId;

/// What a row tells; `import` takes the same.
pub(crate) const HEAD: [&str; 12] = [
    "listing_id",
    "variant",
    "status",
    "state",
    "title",
    "description",
    "tags",
    "materials",
    "section",
    "price",
    "quantity",
    "sku",
];

pub(crate) async fn run(host: &Host, shop: ShopId) -> Result<Exit, AppError> {
    let office = office(host).await?;
    let Some(sections) = office.sections(shop).await? else {
        eprintln!("error: shop {shop} is not known; connect it with `windlass vela connect {shop}`");
        return Ok(Exit::NOT_FOUND);
    };
    say!("{}", HEAD.join(","));
    let mut after = None;
    loop {
        let page = office.shelves.listings.scan().prefix(shop_prefix(shop)).limit(200).after(after).await?;
        for listing in page.entries.iter().filter(|listing| listing.value.deleted_at.is_none()) {
            for row in rows(&view(&listing.value, &sections)) {
                say!("{}", csv::line(&row));
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(Exit::DONE),
        }
    }
}

fn rows(shown: &Value) -> csv::Rows {
    let Some(variants) = shown["variants"].as_object() else { return vec![row(shown, shown, "")] };
    // What all variants share stands in a row of its own, and is changed there.
    let none = Value::Null;
    let mut rows = vec![row(shown, &none, "")];
    let none = Value::Null;
    rows.extend(variants.iter().map(|(key, variant)| {
        let mut row = row(&none, variant, key);
        row[0] = cell(&shown["listing_id"]);
        row
    }));
    rows
}

fn row(shown: &Value, product: &Value, variant: &str) -> Vec<String> {
    let of = |name: &str| match name {
        "variant" => variant.to_owned(),
        "price" | "quantity" | "sku" => cell(&product[name]),
        name => cell(&shown[name]),
    };
    HEAD.iter().map(|name| of(name)).collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
