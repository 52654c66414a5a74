//! Inventories: the products of a listing, as fields and as Etsy takes them.
//!
//! Etsy gives products new numbers each time an inventory is written, so that a
//! product is known by its property values, and the numbers say only whether
//! somebody has written since.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fields::{Fields, OF_PRODUCT};

fn products(inventory: &Value) -> impl Iterator<Item = &Value> {
    let all = inventory["products"].as_array().into_iter().flatten();
    all.filter(|product| product["is_deleted"] != json!(true))
}

/// What a product is called: its property values, in the order of the properties; empty without any.
fn key(product: &Value) -> String {
    let mut values: Vec<&Value> = product["property_values"].as_array().into_iter().flatten().collect();
    values.sort_by_key(|value| value["property_id"].as_u64());
    let named = values.iter().map(|value| {
        let words = value["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        format!(
            "{}={}",
            value["property_name"].as_str().unwrap_or_default(),
            words.collect::<Vec<_>>().join("|")
        )
    });
    named.collect::<Vec<_>>().join(", ")
}

fn field_name(key: &str, name: &str) -> String {
    if key.is_empty() { name.to_owned() } else { format!("variants/{key}/{name}") }
}

fn of_product(product: &Value, name: &str) -> Value {
    let offering = &product["offerings"][0];
    match name {
        "sku" => product["sku"].clone(),
        "price" => decimal(&offering["price"]),
        name => offering[name].clone(),
    }
}

/// An amount of money as a decimal.
pub fn decimal(money: &Value) -> Value {
    match (money["amount"].as_i64(), money["divisor"].as_i64()) {
        (Some(amount), Some(divisor)) if divisor > 0 => json!(amount as f64 / divisor as f64),
        _ => Value::Null,
    }
}

/// The fields of all products.
pub fn fields(inventory: &Value) -> Fields {
    let mut fields = Fields::new();
    for product in products(inventory) {
        let key = key(product);
        for name in OF_PRODUCT {
            fields.insert(field_name(&key, name), of_product(product, name));
        }
    }
    fields
}

/// The variant that somebody means: by its name, or by a SKU that only one has.
pub fn named(text: &str, had: &Fields) -> Option<String> {
    if had.contains_key(&field_name(text, "price")) {
        return Some(text.to_owned());
    }
    let mut found = had.iter().filter_map(|(name, value)| {
        let key = name.strip_prefix("variants/")?.strip_suffix("/sku")?;
        (value.as_str() == Some(text)).then(|| key.to_owned())
    });
    found.next().filter(|_| found.next().is_none())
}

/// The numbers that Etsy has given the products this time.
pub fn numbers(inventory: &Value) -> BTreeSet<u64> {
    products(inventory).filter_map(|product| product["product_id"].as_u64()).collect()
}

/// All SKUs are empty: Etsy has been known to leave them out where an inventory comes along with a page.
pub fn has_no_sku(inventory: &Value) -> bool {
    products(inventory).all(|product| product["sku"].as_str().unwrap_or_default().is_empty())
}

/// How many there are of all products.
pub fn total(inventory: &Value) -> i64 {
    products(inventory).filter_map(|product| product["offerings"][0]["quantity"].as_i64()).sum()
}

/// The whole inventory as Etsy takes it, with some fields changed, and without anything that can only be read.
pub fn replaced(inventory: &Value, changes: &Fields) -> Value {
    let products: Vec<Value> = products(inventory).map(|product| writable(product, changes)).collect();
    let mut body = json!({ "products": products });
    for (name, of) in [
        ("price_on_property", "price"),
        ("quantity_on_property", "quantity"),
        ("sku_on_property", "sku"),
        ("readiness_state_on_property", "readiness_state_id"),
    ] {
        body[name] = depends_on(&inventory[name], &body["products"], of);
    }
    body
}

fn writable(product: &Value, changes: &Fields) -> Value {
    let key = key(product);
    let changed = |name: &str, had: Value| changes.get(&field_name(&key, name)).cloned().unwrap_or(had);
    let offerings = product["offerings"].as_array().into_iter().flatten().map(|offering| {
        json!({
            "price": changed("price", decimal(&offering["price"])),
            "quantity": changed("quantity", offering["quantity"].clone()),
            "is_enabled": changed("is_enabled", offering["is_enabled"].clone()),
            "readiness_state_id": offering["readiness_state_id"],
        })
    });
    let offerings: Vec<Value> = offerings.collect();
    let values = product["property_values"].as_array().into_iter().flatten().map(|value| {
        json!({
            "property_id": value["property_id"], "property_name": value["property_name"],
            "scale_id": value["scale_id"], "value_ids": value["value_ids"], "values": value["values"],
        })
    });
    let values: Vec<Value> = values.collect();
    json!({
        "sku": changed("sku", product["sku"].clone()), "offerings": offerings, "property_values": values,
    })
}

/// The properties that something depends on: as it was, or all of them where products now differ.
fn depends_on(had: &Value, products: &Value, of: &str) -> Value {
    let products = products.as_array().map(Vec::as_slice).unwrap_or_default();
    let value = |product: &Value| match of {
        "sku" => product["sku"].to_string(),
        of => product["offerings"][0][of].to_string(),
    };
    let different: BTreeSet<String> = products.iter().map(value).collect();
    if had.as_array().is_some_and(|had| !had.is_empty()) || different.len() < 2 {
        return if had.is_array() { had.clone() } else { json!([]) };
    }
    let first = products.first().and_then(|product| product["property_values"].as_array());
    first.into_iter().flatten().map(|value| value["property_id"].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Value {
        let product = |id: u64, size: &str, quantity: i64| {
            json!({
                "product_id": id, "sku": format!("S-{size}"), "is_deleted": false,
                "offerings": [{"offering_id": id + 1, "quantity": quantity, "is_enabled": true, "is_deleted": false,
                    "price": {"amount": 1999, "divisor": 100, "currency_code": "EUR"}, "readiness_state_id": 9}],
                "property_values": [{"property_id": 513, "property_name": "Size", "scale_id": null,
                    "scale_name": null, "value_ids": [id], "values": [size]}],
            })
        };
        json!({"products": [product(1, "S", 3), product(2, "M", 4)], "price_on_property": [],
            "quantity_on_property": [513], "sku_on_property": [513], "readiness_state_on_property": []})
    }

    #[test]
    fn products_are_known_by_their_values() {
        let fields = fields(&inventory());
        assert_eq!(fields["variants/Size=S/price"], json!(19.99));
        assert_eq!(fields["variants/Size=M/quantity"], json!(4));
        assert_eq!(named("S-M", &fields).as_deref(), Some("Size=M"));
        assert_eq!(named("Size=S", &fields).as_deref(), Some("Size=S"));
        assert_eq!(named("elsewhere", &fields), None);
    }

    #[test]
    fn what_is_written_has_nothing_that_can_only_be_read() {
        let changes = Fields::from([("variants/Size=M/price".to_owned(), json!(25.0))]);
        let body = replaced(&inventory(), &changes);
        let text = body.to_string();
        for key in ["product_id", "offering_id", "is_deleted", "scale_name", "divisor"] {
            assert!(!text.contains(key), "{key} in {text}");
        }
        assert_eq!(body["products"][1]["offerings"][0]["price"], json!(25.0));
        assert_eq!(body["products"][0]["offerings"][0]["price"], json!(19.99));
        assert_eq!(body["price_on_property"], json!([513]), "they differ now");
        assert_eq!(body["products"].as_array().unwrap().len(), 2, "a product that is left out is deleted");
    }
}
