//! Inventories: replaced as a whole, with new ids each time.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::listing::money;

fn products(inventory: &Value) -> impl Iterator<Item = &Value> {
    inventory["products"].as_array().into_iter().flatten()
}

fn offerings(product: &Value) -> impl Iterator<Item = &Value> {
    product["offerings"].as_array().into_iter().flatten()
}

pub(super) fn total(inventory: &Value) -> i64 {
    products(inventory).flat_map(offerings).filter_map(|offering| offering["quantity"].as_i64()).sum()
}

pub(super) fn lowest_price(inventory: &Value) -> Value {
    let amounts =
        products(inventory).flat_map(offerings).filter_map(|offering| offering["price"]["amount"].as_i64());
    money(amounts.min().unwrap_or(0))
}

pub(super) fn has_variations(inventory: &Value) -> bool {
    products(inventory)
        .any(|product| product["property_values"].as_array().is_some_and(|all| !all.is_empty()))
}

pub(super) fn blank_skus(inventory: &mut Value) {
    for product in inventory["products"].as_array_mut().into_iter().flatten() {
        product["sku"] = json!("");
    }
}

/// Buyers buy; what is not there cannot be bought. A negative count puts some back.
pub(super) fn sell(inventory: &mut Value, product: usize, count: i64) {
    let quantity = &mut inventory["products"][product]["offerings"][0]["quantity"];
    *quantity = json!((quantity.as_i64().unwrap_or(0) - count).max(0));
}

/// The inventory that a PUT makes, or why it is refused.
pub(super) fn replaced(body: &Value, old: &Value, id: &mut impl FnMut() -> u64) -> Result<Value, String> {
    const TOP: [&str; 5] = [
        "products",
        "price_on_property",
        "quantity_on_property",
        "sku_on_property",
        "readiness_state_on_property",
    ];
    only(body, &TOP)?;
    let given = body["products"].as_array().filter(|all| !all.is_empty());
    let given = given.ok_or("Products must not be empty.")?;
    let products: Result<Vec<Value>, String> = given.iter().map(|one| product(one, id)).collect();
    let products = products?;
    let names = |product: &Value| -> Vec<Value> {
        product["property_values"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one["property_id"].clone())
            .collect()
    };
    if products.iter().any(|one| names(one) != names(&products[0])) {
        return Err("All products must have the same properties.".to_owned());
    }
    let variants: BTreeSet<String> = products.iter().map(|one| one["property_values"].to_string()).collect();
    if variants.len() != products.len() {
        return Err("Two products have the same property values.".to_owned());
    }
    let mut made = json!({ "products": products });
    for name in &TOP[1..] {
        let on = body.get(*name).cloned().unwrap_or_else(|| json!([]));
        consistent(name, &on, &made)?;
        made[*name] = on;
    }
    let _ = old;
    Ok(made)
}

/// What differs between products must be named as depending on a property, and nothing else may be.
fn consistent(name: &str, on: &Value, made: &Value) -> Result<(), String> {
    let on = on.as_array().ok_or_else(|| format!("{name} must be an array."))?;
    let of = |product: &Value| match name {
        "price_on_property" => product["offerings"][0]["price"]["amount"].clone(),
        "quantity_on_property" => product["offerings"][0]["quantity"].clone(),
        "sku_on_property" => product["sku"].clone(),
        _ => product["offerings"][0]["readiness_state_id"].clone(),
    };
    let values: BTreeSet<String> = products(made).map(|product| of(product).to_string()).collect();
    if values.len() > 1 && on.is_empty() {
        return Err(format!("{name} must name the property that the values depend on."));
    }
    let known = |id: &Value| {
        let first = &made["products"][0]["property_values"];
        first.as_array().is_some_and(|all| all.iter().any(|one| one["property_id"] == *id))
    };
    if on.iter().all(known) { Ok(()) } else { Err(format!("{name} names a property that no product has.")) }
}

fn product(given: &Value, id: &mut impl FnMut() -> u64) -> Result<Value, String> {
    only(given, &["sku", "property_values", "offerings"])?;
    let offers =
        given["offerings"].as_array().filter(|all| !all.is_empty()).ok_or("Offerings are required.")?;
    let mut made = Vec::new();
    for offer in offers {
        only(offer, &["price", "quantity", "is_enabled", "readiness_state_id"])?;
        for key in ["price", "quantity", "is_enabled", "readiness_state_id"] {
            if offer.get(key).is_none() {
                return Err(format!("{key} is required in an offering."));
            }
        }
        let price = offer["price"].as_f64().filter(|price| *price >= 0.2).ok_or("The price is not valid.")?;
        let quantity = offer["quantity"].as_i64().filter(|quantity| (0..=999).contains(quantity));
        let quantity = quantity.ok_or("The quantity must be between 0 and 999.")?;
        made.push(json!({
            "offering_id": id(), "quantity": quantity, "is_enabled": offer["is_enabled"], "is_deleted": false,
            "price": money((price * 100.0).round() as i64), "readiness_state_id": offer["readiness_state_id"],
        }));
    }
    let mut values = Vec::new();
    for value in given["property_values"].as_array().into_iter().flatten() {
        only(value, &["property_id", "value_ids", "values", "scale_id", "property_name"])?;
        let words = value["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if words.into_iter().any(|word| word.contains(['(', ')'])) {
            return Err("Property values must not have parentheses.".to_owned());
        }
        let mut value = value.clone();
        value["scale_name"] = Value::Null;
        values.push(value);
    }
    let sku = given["sku"].as_str().unwrap_or_default();
    Ok(json!({
        "product_id": id(), "sku": sku, "is_deleted": false, "offerings": made, "property_values": values,
    }))
}

fn only(object: &Value, keys: &[&str]) -> Result<(), String> {
    let object = object.as_object().ok_or("An object was expected.")?;
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("Array contains invalid keys: {key}")),
        None => Ok(()),
    }
}
