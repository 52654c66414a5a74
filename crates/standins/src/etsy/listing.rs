//! Listings: what they hold, and what a change of them may say.

use serde_json::{Value, json};

use super::inventory;

/// A listing to be made.
#[derive(Debug, Clone)]
pub struct NewListing {
    title: String,
    state: &'static str,
    quantity: i64,
    price: i64,
    /// Option values of one property; empty for a listing without variations.
    sizes: Vec<&'static str>,
    pub(super) images: usize,
}

impl NewListing {
    /// An active listing of ten things at 12.50, with two images.
    pub fn new(title: &str) -> Self {
        let title = title.to_owned();
        Self { title, state: "active", quantity: 10, price: 1250, sizes: Vec::new(), images: 2 }
    }

    /// In which state it is.
    #[must_use]
    pub fn state(mut self, state: &'static str) -> Self {
        self.state = state;
        self
    }

    /// How many there are, of each size.
    #[must_use]
    pub fn quantity(mut self, quantity: i64) -> Self {
        self.quantity = quantity;
        self
    }

    /// The price in cents.
    #[must_use]
    pub fn cents(mut self, cents: i64) -> Self {
        self.price = cents;
        self
    }

    /// It comes in these sizes.
    #[must_use]
    pub fn sizes(mut self, sizes: &[&'static str]) -> Self {
        self.sizes = sizes.to_vec();
        self
    }

    pub(super) fn inventory(&self, id: &mut impl FnMut() -> u64) -> Value {
        let one = [""];
        let sizes: &[&str] = if self.sizes.is_empty() { &one } else { &self.sizes };
        let products = sizes.iter().map(|size| {
            let values = match *size {
                "" => json!([]),
                size => json!([{
                    "property_id": 513, "property_name": "Size", "scale_id": null, "scale_name": null,
                    "value_ids": [size.len() as u64 * 1000 + u64::from(size.as_bytes()[0])], "values": [size],
                }]),
            };
            let quantity = if self.state == "sold_out" { 0 } else { self.quantity };
            json!({
                "product_id": id(),
                "sku": format!("SKU-{}{size}", self.title.len()),
                "is_deleted": false,
                "offerings": [{
                    "offering_id": id(), "quantity": quantity, "is_enabled": true, "is_deleted": false,
                    "price": money(self.price), "readiness_state_id": 77,
                }],
                "property_values": values,
            })
        });
        let products: Vec<Value> = products.collect();
        let on = if self.sizes.is_empty() { json!([]) } else { json!([513]) };
        json!({
            "products": products, "price_on_property": on, "quantity_on_property": on,
            "sku_on_property": on, "readiness_state_on_property": [],
        })
    }
}

pub(super) fn money(cents: i64) -> Value {
    json!({"amount": cents, "divisor": 100, "currency_code": "EUR"})
}

pub(super) struct Listing {
    pub(super) id: u64,
    pub(super) shop: u64,
    pub(super) fields: Value,
    pub(super) inventory: Value,
    pub(super) images: Vec<u64>,
}

impl Listing {
    pub(super) fn new(
        id: u64,
        shop: u64,
        user: u64,
        new: NewListing,
        inventory: Value,
        images: Vec<u64>,
        now_s: u64,
    ) -> Self {
        let mut fields = json!({
            "listing_id": id, "user_id": user, "shop_id": shop,
            "title": new.title, "description": format!("All about {}", new.title), "state": new.state,
            "creation_timestamp": now_s, "created_timestamp": now_s, "ending_timestamp": now_s + 10_000_000,
            "original_creation_timestamp": now_s, "last_modified_timestamp": now_s, "updated_timestamp": now_s,
            "state_timestamp": now_s, "shop_section_id": null, "featured_rank": -1,
            "url": format!("https://www.etsy.com/listing/{id}"), "num_favorers": 0, "views": 3,
        });
        let rest = json!({
            "tags": ["gift", "handmade"], "materials": ["wool"], "style": [], "shipping_profile_id": 5,
            "return_policy_id": 6, "processing_min": 1, "processing_max": 3, "who_made": "i_did",
            "when_made": "2020_2026", "is_supply": false, "item_weight": null, "item_weight_unit": null,
            "item_length": null, "item_width": null, "item_height": null, "item_dimensions_unit": null,
            "is_taxable": true, "is_customizable": false, "is_personalizable": false,
            "listing_type": "physical", "should_auto_renew": false, "language": "de",
            "taxonomy_id": 1429, "readiness_state_id": 77,
        });
        if let (Some(fields), Value::Object(rest)) = (fields.as_object_mut(), rest) {
            fields.extend(rest);
        }
        Self { id, shop, fields, inventory, images }
    }

    pub(super) fn state(&self) -> &str {
        self.fields["state"].as_str().unwrap_or_default()
    }

    pub(super) fn touch(&mut self, now_s: u64) {
        self.fields["last_modified_timestamp"] = json!(now_s);
        self.fields["updated_timestamp"] = json!(now_s);
    }

    /// The listing as the API shows it, without what must be asked for.
    pub(super) fn shown(&self) -> Value {
        let mut shown = self.fields.clone();
        shown["quantity"] = json!(inventory::total(&self.inventory));
        shown["price"] = inventory::lowest_price(&self.inventory);
        shown["has_variations"] = json!(inventory::has_variations(&self.inventory));
        shown
    }

    /// With what was asked for.
    pub(super) fn with(&self, includes: &[String], blank_skus: bool) -> Value {
        let mut shown = self.shown();
        for include in includes {
            match include.as_str() {
                "Images" => shown["images"] = self.image_objects(),
                "Inventory" => {
                    shown["inventory"] = self.inventory.clone();
                    if blank_skus {
                        inventory::blank_skus(&mut shown["inventory"]);
                    }
                }
                "Translations" => {
                    shown["translations"] = json!({"en-US": {
                        "listing_id": self.id, "language": "en-US",
                        "title": format!("{} (en)", self.fields["title"].as_str().unwrap_or_default()),
                        "description": "In English", "tags": [],
                    }});
                }
                _ => {}
            }
        }
        shown
    }

    pub(super) fn full(&self) -> Value {
        self.with(&["Images".to_owned(), "Inventory".to_owned()], false)
    }

    fn image_objects(&self) -> Value {
        let images = self.images.iter().enumerate().map(|(at, id)| {
            json!({
                "listing_id": self.id, "listing_image_id": id, "rank": at + 1, "alt_text": "",
                "url_fullxfull": format!("https://i.etsystatic.com/{id}/il_fullxfull.jpg"),
                "full_height": 800, "full_width": 800,
            })
        });
        images.collect()
    }

    pub(super) fn sell(&mut self, product: usize, count: i64, now_s: u64) {
        inventory::sell(&mut self.inventory, product, count);
        if inventory::total(&self.inventory) == 0 && self.state() == "active" {
            self.fields["state"] = json!("sold_out");
        }
        self.touch(now_s);
    }

    /// Changes fields as a PATCH says. Answers how many fees that costs, or why it is refused.
    pub(super) fn patch(
        &mut self,
        form: &[(String, String)],
        lies: &std::collections::HashSet<&'static str>,
        now_s: u64,
    ) -> Result<u64, String> {
        let mut fields = self.fields.clone();
        let mut images = self.images.clone();
        let mut fees = 0;
        for (name, value) in form {
            let Some(read) = read_field(name, value)? else { continue };
            match name.as_str() {
                "state" => fees += self.change_state(&mut fields, value)?,
                "image_ids" => images = read_images(value, &self.images)?,
                _ if lies.contains(name.as_str()) => {}
                _ => fields[name.as_str()] = read,
            }
        }
        (self.fields, self.images) = (fields, images);
        if fees > 0 && self.state() == "active" && inventory::total(&self.inventory) == 0 {
            inventory::sell(&mut self.inventory, 0, -1);
        }
        self.touch(now_s);
        Ok(fees)
    }

    fn change_state(&self, fields: &mut Value, to: &str) -> Result<u64, String> {
        let fee = match (self.state(), to) {
            ("active" | "inactive", "inactive") | ("active", "active") => 0,
            ("inactive", "active") => 0,
            // These cost a listing fee.
            ("draft" | "expired" | "sold_out", "active") => 1,
            (from, to) => return Err(format!("A listing cannot go from {from} to {to}.")),
        };
        fields["state"] = json!(to);
        Ok(fee)
    }
}

/// Fields of updateListing with their types; nothing for those that Etsy ignores.
fn read_field(name: &str, value: &str) -> Result<Option<Value>, String> {
    let list = || Value::from(value.split(',').filter(|part| !part.is_empty()).collect::<Vec<_>>());
    let number = || value.parse::<u64>().map(Value::from).map_err(|_| format!("{name} must be an integer."));
    let flag = || match value {
        "true" | "1" => Ok(json!(true)),
        "false" | "0" => Ok(json!(false)),
        _ => Err(format!("{name} must be a boolean.")),
    };
    Ok(Some(match name {
        "title" => checked_title(value)?,
        "description" if value.is_empty() => return Err("The description must not be empty.".to_owned()),
        "description" | "who_made" | "when_made" | "state" => json!(value),
        "tags" => checked_tags(list())?,
        "materials" => list(),
        "image_ids" => list(),
        "shop_section_id" | "shipping_profile_id" | "return_policy_id" | "taxonomy_id" => number()?,
        "should_auto_renew" | "is_supply" | "is_taxable" => flag()?,
        _ => return Ok(None),
    }))
}

fn checked_title(title: &str) -> Result<Value, String> {
    if title.is_empty() || title.chars().count() > 140 {
        return Err("The title must have between 1 and 140 characters.".to_owned());
    }
    match ['%', ':', '&', '+'].into_iter().find(|c| title.matches(*c).count() > 1) {
        Some(c) => Err(format!("The character {c} may be used once in a title only.")),
        None => Ok(json!(title)),
    }
}

fn checked_tags(tags: Value) -> Result<Value, String> {
    let all = tags.as_array().into_iter().flatten().filter_map(Value::as_str);
    let fits =
        |c: char| c.is_alphanumeric() || c.is_whitespace() || matches!(c, '-' | '\'' | '™' | '©' | '®');
    for tag in all.clone() {
        if tag.chars().count() > 20 || !tag.chars().all(fits) {
            return Err(format!("The tag '{tag}' is not valid."));
        }
    }
    if all.count() > 13 { Err("A listing may have 13 tags.".to_owned()) } else { Ok(tags) }
}

fn read_images(value: &str, had: &[u64]) -> Result<Vec<u64>, String> {
    let ids: Option<Vec<u64>> = value.split(',').map(|id| id.parse().ok()).collect();
    let ids = ids.filter(|ids| ids.len() <= 20 && ids.iter().all(|id| had.contains(id)));
    ids.ok_or_else(|| "image_ids must name images of the listing.".to_owned())
}
