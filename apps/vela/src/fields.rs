//! The fields of a listing that users may change: what they are at Etsy, what
//! they may be, and how they are sent.
//!
//! A field is a name and a value. What belongs to a product of the inventory is
//! a field of its own: `price`, `quantity` and `sku` of a listing without
//! variations, `variants/KEY/price` of one with. So edits, merges and conflicts
//! know nothing of products.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::variants;

/// Names and values.
pub type Fields = BTreeMap<String, Value>;

/// Sections by their numbers.
pub type Sections = BTreeMap<u64, String>;

const TITLE_CHARS_MAX: usize = 140;
const TAGS_MAX: usize = 13;
const TAG_CHARS_MAX: usize = 20;
const TEXT_BYTES_MAX: usize = 100_000;
const IMAGES_MAX: usize = 20;
const QUANTITY_MAX: i64 = 999;

/// What a plain field holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Words,
    Id,
    Ids,
    Flag,
}

/// The plain fields: those that Etsy has in the listing itself.
const PLAIN: &[(&str, Shape)] = &[
    ("title", Shape::Text),
    ("description", Shape::Text),
    ("tags", Shape::Words),
    ("materials", Shape::Words),
    ("image_ids", Shape::Ids),
    ("section", Shape::Text),
    ("state", Shape::Text),
    ("shipping_profile_id", Shape::Id),
    ("return_policy_id", Shape::Id),
    ("taxonomy_id", Shape::Id),
    ("who_made", Shape::Text),
    ("when_made", Shape::Text),
    ("is_supply", Shape::Flag),
    ("is_taxable", Shape::Flag),
    ("should_auto_renew", Shape::Flag),
];

/// The fields of a product.
pub const OF_PRODUCT: [&str; 4] = ["price", "quantity", "sku", "is_enabled"];

/// All that can be changed, as it is at Etsy.
pub fn of_remote(remote: &Value, sections: &Sections) -> Fields {
    let mut fields = plain_of_remote(remote, sections);
    fields.extend(variants::fields(&remote["inventory"]));
    fields
}

/// What can be changed without the inventory.
pub fn plain_of_remote(remote: &Value, sections: &Sections) -> Fields {
    let mut fields = Fields::new();
    for (name, _) in PLAIN {
        let value = match *name {
            "section" => {
                let title = remote["shop_section_id"].as_u64().and_then(|id| sections.get(&id));
                title.map_or(Value::Null, |title| json!(title))
            }
            "image_ids" => image_ids(remote),
            name => remote[name].clone(),
        };
        fields.insert((*name).to_owned(), value);
    }
    fields
}

fn image_ids(remote: &Value) -> Value {
    let mut images: Vec<&Value> = remote["images"].as_array().into_iter().flatten().collect();
    images.sort_by_key(|image| image["rank"].as_u64());
    images.into_iter().map(|image| image["listing_image_id"].clone()).collect()
}

/// Whether a field belongs to the inventory.
pub fn is_of_inventory(name: &str) -> bool {
    name.starts_with("variants/") || OF_PRODUCT.contains(&name)
}

/// Whether a field counts things: buyers change it all the time, so that it is sent as a difference.
pub fn is_quantity(name: &str) -> bool {
    name == "quantity" || (name.starts_with("variants/") && name.ends_with("/quantity"))
}

/// A wish to change fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wish {
    /// The new values, each as it must be.
    pub fields: Fields,
    /// The seller knows that this may cost a listing fee.
    pub accepts_fee: bool,
}

impl Wish {
    /// Reads a wish for a listing whose fields are these. Everything that is wrong is said at once, by field.
    pub fn read(body: &Map<String, Value>, had: &Fields) -> Result<Self, BTreeMap<String, String>> {
        let (mut wish, mut wrong) = (Self::default(), BTreeMap::new());
        for (name, value) in body {
            match name.as_str() {
                "accept_fee" => wish.accepts_fee = value == &json!(true),
                "variants" => wish.read_variants(value, had, &mut wrong),
                name => wish.take(name, value, had, &mut wrong),
            }
        }
        if wrong.is_empty() { Ok(wish) } else { Err(wrong) }
    }

    fn read_variants(&mut self, value: &Value, had: &Fields, wrong: &mut BTreeMap<String, String>) {
        let Some(variants) = value.as_object() else {
            wrong.insert("variants".to_owned(), "must be an object of variants by their names".to_owned());
            return;
        };
        for (key, fields) in variants {
            let Some(key) = variants::named(key, had) else {
                wrong.insert(format!("variants/{key}"), "is no variant of this listing".to_owned());
                continue;
            };
            for (name, value) in fields.as_object().into_iter().flatten() {
                self.take(&format!("variants/{key}/{name}"), value, had, wrong);
            }
        }
    }

    fn take(&mut self, name: &str, value: &Value, had: &Fields, wrong: &mut BTreeMap<String, String>) {
        if !had.contains_key(name) {
            let why = if OF_PRODUCT.contains(&name) {
                "differs between the variants of this listing: name them in `variants`"
            } else {
                "is no field that can be changed"
            };
            wrong.insert(name.to_owned(), why.to_owned());
            return;
        }
        if name == "image_ids" && !has_images(had, value) {
            wrong.insert(
                name.to_owned(),
                "names images that the listing does not have, or one twice".to_owned(),
            );
            return;
        }
        match checked(name, value) {
            Ok(value) => drop(self.fields.insert(name.to_owned(), value)),
            Err(why) => drop(wrong.insert(name.to_owned(), why)),
        }
    }
}

/// Whether all images are the listing's own, each once: only their order can be changed, and which are left.
fn has_images(had: &Fields, wanted: &Value) -> bool {
    let own = had.get("image_ids").and_then(Value::as_array);
    let wanted = wanted.as_array().map_or(&[][..], Vec::as_slice);
    let is_own = |id: &Value| own.is_some_and(|own| own.contains(id));
    wanted.iter().enumerate().all(|(at, id)| is_own(id) && !wanted[..at].contains(id))
}

/// A value as it must be, or why it cannot be. Etsy would say so too, but a call is dear.
pub fn checked(name: &str, value: &Value) -> Result<Value, String> {
    if is_of_inventory(name) {
        return checked_of_product(name.rsplit('/').next().unwrap_or(name), value);
    }
    let shape = PLAIN.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape);
    let shape = shape.ok_or("is no field that can be changed")?;
    match shape {
        Shape::Text => {
            let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
            checked_text(name, text.ok_or("must be text that is not empty")?)
        }
        Shape::Words => checked_words(name, value),
        Shape::Id => {
            value.as_u64().filter(|id| *id > 0).map(Value::from).ok_or("must be a number".to_owned())
        }
        Shape::Ids => {
            let ids = value.as_array().filter(|ids| !ids.is_empty() && ids.len() <= IMAGES_MAX);
            let fits = ids.is_some_and(|ids| ids.iter().all(Value::is_u64));
            if fits { Ok(value.clone()) } else { Err(format!("must be 1 to {IMAGES_MAX} numbers of images")) }
        }
        Shape::Flag => value.as_bool().map(Value::from).ok_or("must be true or false".to_owned()),
    }
}

fn checked_text(name: &str, text: &str) -> Result<Value, String> {
    let is_line_end = |c| name == "description" && matches!(c, '\n' | '\r' | '\t');
    if text.len() > TEXT_BYTES_MAX || text.chars().any(|c| c.is_control() && !is_line_end(c)) {
        return Err("is too long, or holds a control character".to_owned());
    }
    match name {
        "title" if text.chars().count() > TITLE_CHARS_MAX => {
            return Err(format!("has more than {TITLE_CHARS_MAX} characters"));
        }
        "title" => {
            if let Some(c) = ['%', ':', '&', '+'].into_iter().find(|c| text.matches(*c).count() > 1) {
                return Err(format!("has {c} more than once"));
            }
        }
        "state" if !["active", "inactive"].contains(&text) => {
            return Err("must be active or inactive".to_owned());
        }
        _ => {}
    }
    Ok(json!(text))
}

fn checked_words(name: &str, value: &Value) -> Result<Value, String> {
    let words: Option<Vec<&str>> =
        value.as_array().and_then(|words| words.iter().map(Value::as_str).collect());
    let words: Vec<&str> = words.ok_or("must be a list of words")?.into_iter().map(str::trim).collect();
    let extra: &[char] = if name == "tags" { &['-', '\'', '™', '©', '®'] } else { &[] };
    let fits = |c: char| c.is_alphanumeric() || c.is_whitespace() || extra.contains(&c);
    for word in &words {
        if word.is_empty() || !word.chars().all(fits) {
            return Err(format!("has {word:?}, which holds characters that Etsy does not take"));
        }
        if name == "tags" && word.chars().count() > TAG_CHARS_MAX {
            return Err(format!("has {word:?}, which has more than {TAG_CHARS_MAX} characters"));
        }
    }
    if words.len() > TAGS_MAX { Err(format!("has more than {TAGS_MAX} words")) } else { Ok(json!(words)) }
}

fn checked_of_product(name: &str, value: &Value) -> Result<Value, String> {
    match name {
        "price" => {
            let number = value.as_f64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
            let price = number.filter(|price| (0.2..=1_000_000_000.0).contains(price));
            // To whole hundredths, so that it compares equal to what Etsy gives back.
            price
                .map(|price| json!((price * 100.0).round() / 100.0))
                .ok_or("must be a price such as 12.50".to_owned())
        }
        "quantity" => {
            let quantity =
                value.as_i64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
            let quantity = quantity.filter(|quantity| (0..=QUANTITY_MAX).contains(quantity));
            quantity.map(Value::from).ok_or_else(|| format!("must lie between 0 and {QUANTITY_MAX}"))
        }
        "sku" => match value.as_str() {
            Some(sku) if sku.len() <= 128 && !sku.chars().any(char::is_control) => Ok(json!(sku.trim())),
            _ => Err("must be text of at most 128 bytes".to_owned()),
        },
        "is_enabled" => value.as_bool().map(Value::from).ok_or("must be true or false".to_owned()),
        _ => Err("is no field of a variant".to_owned()),
    }
}

/// Plain fields as Etsy's form has them. `section` is the number of a section by its title.
pub fn form(fields: &Fields, section: impl Fn(&str) -> Option<u64>) -> Vec<(String, String)> {
    let mut form = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| !is_of_inventory(name)) {
        let pair = match name.as_str() {
            "section" => {
                let id = value.as_str().and_then(&section);
                id.map(|id| ("shop_section_id".to_owned(), id.to_string()))
            }
            _ => Some((name.clone(), as_text(value))),
        };
        form.extend(pair);
    }
    form
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(as_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_before_a_call_is_spent() {
        let good = [
            ("title", json!(" A & B "), json!("A & B")),
            ("tags", json!(["one", "it's-two"]), json!(["one", "it's-two"])),
            ("price", json!("12.50"), json!(12.5)),
            ("price", json!(3), json!(3.0)),
            ("variants/Size=S/quantity", json!(5), json!(5)),
            ("state", json!("inactive"), json!("inactive")),
            ("description", json!("two\nlines"), json!("two\nlines")),
        ];
        for (name, value, made) in good {
            assert_eq!(checked(name, &value), Ok(made), "{name}");
        }
        let bad = [
            ("title", json!("")),
            ("title", json!("a & b & c")),
            ("title", json!("two\nlines")),
            ("description", json!("a bell \u{7}")),
            ("title", json!("x".repeat(141))),
            ("tags", json!(["a".repeat(21)])),
            ("tags", json!(["no/slash"])),
            ("materials", json!(["wool-mix"])),
            ("price", json!(0.1)),
            ("price", json!("cheap")),
            ("quantity", json!(1000)),
            ("quantity", json!(-1)),
            ("state", json!("sold_out")),
            ("image_ids", json!([])),
            ("views", json!(3)),
        ];
        for (name, value) in bad {
            assert!(checked(name, &value).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn images_are_the_listings_own() {
        let had = Fields::from([("image_ids".to_owned(), json!([11, 12, 13]))]);
        let read = |ids: Value| Wish::read(json!({"image_ids": ids}).as_object().unwrap(), &had);
        assert!(read(json!([13, 11])).is_ok());
        for wrong in [json!([11, 99]), json!([11, 11]), json!([]), json!("11")] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_form_is_text() {
        let fields = Fields::from([
            ("tags".to_owned(), json!(["a", "b c"])),
            ("is_supply".to_owned(), json!(false)),
            ("section".to_owned(), json!("Hats")),
            ("price".to_owned(), json!(3.5)),
        ]);
        let form = form(&fields, |title| (title == "Hats").then_some(7));
        let expected = [("is_supply", "false"), ("shop_section_id", "7"), ("tags", "a,b c")];
        assert_eq!(form, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
