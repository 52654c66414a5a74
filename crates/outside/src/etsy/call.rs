//! The calls that a sync makes, as data.

use http::Method;
use serde_json::Value;

/// The most listings of a page.
pub const PAGE_MAX: u32 = 100;
/// The most listings of one question by ids.
pub const BATCH_MAX: usize = 100;
/// Etsy answers no page that begins behind this.
pub const OFFSET_MAX: u32 = 12_000;
/// A page shows listings of one state only.
pub const LISTING_STATES: [&str; 5] = ["active", "inactive", "sold_out", "draft", "expired"];

/// What a page of listings brings along; one question for all that a sync needs.
const PAGE_INCLUDES: &str = "Images,Inventory,Translations";
/// A question by ids does not know `Inventory`.
const BATCH_INCLUDES: &str = "Images,Translations";

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What it does, in a word for logs and counts.
    pub name: &'static str,
    pub(super) method: Method,
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(&'static str, String)>,
    content: Content,
}

/// What a call sends.
#[derive(Debug, Clone, PartialEq)]
enum Content {
    Nothing,
    Form(Vec<(String, String)>),
    Json(Value),
}

/// In which order a page goes through the listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// The newest first.
    Newest,
    /// The oldest first.
    Oldest,
}

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which of the [`LISTING_STATES`].
    pub state: &'static str,
    /// How many listings stand before it.
    pub offset: u32,
    /// In which order.
    pub sort: Sort,
}

impl Call {
    fn new(name: &'static str, method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        Self { name, method, path, query: Vec::new(), content: Content::Nothing }
    }

    /// Who the token belongs to, and which shop is theirs.
    pub fn me() -> Self {
        Self::new("me", Method::GET, &["users", "me"])
    }

    /// Whether the app may ask at all.
    pub(super) fn ping() -> Self {
        Self::new("ping", Method::GET, &["openapi-ping"])
    }

    /// A shop.
    pub fn shop(shop: u64) -> Self {
        Self::new("shop", Method::GET, &["shops", &shop.to_string()])
    }

    /// The sections of a shop.
    pub fn sections(shop: u64) -> Self {
        Self::new("sections", Method::GET, &["shops", &shop.to_string(), "sections"])
    }

    /// A new section. Etsy does not mind two of the same title: look first.
    pub fn create_section(shop: u64, title: &str) -> Self {
        let call = Self::new("create_section", Method::POST, &["shops", &shop.to_string(), "sections"]);
        call.form(vec![("title".to_owned(), title.to_owned())])
    }

    /// A page of a shop's listings, with images, inventory and translations.
    pub fn listings(shop: u64, place: Place) -> Self {
        let mut call = Self::new("listings", Method::GET, &["shops", &shop.to_string(), "listings"]);
        let order = match place.sort {
            Sort::Newest => "desc",
            Sort::Oldest => "asc",
        };
        call.query = vec![
            ("state", place.state.to_owned()),
            ("limit", PAGE_MAX.to_string()),
            ("offset", place.offset.to_string()),
            ("sort_on", "created".to_owned()),
            ("sort_order", order.to_owned()),
            ("includes", PAGE_INCLUDES.to_owned()),
        ];
        call
    }

    /// At most [`BATCH_MAX`] listings by their ids, of whatever state, with images and translations.
    pub fn batch(listings: &[u64]) -> Self {
        let mut call = Self::new("batch", Method::GET, &["listings", "batch"]);
        call.query = vec![("listing_ids", joined(listings)), ("includes", BATCH_INCLUDES.to_owned())];
        call
    }

    /// The inventories of at most [`BATCH_MAX`] listings. One that is gone makes the whole call "not found".
    pub fn batch_inventory(listings: &[u64]) -> Self {
        let mut call = Self::new("batch_inventory", Method::GET, &["listings", "batch", "inventory"]);
        call.query = vec![("listing_ids", joined(listings))];
        call
    }

    /// The inventory of a listing.
    pub fn inventory(listing: u64) -> Self {
        Self::new("inventory", Method::GET, &["listings", &listing.to_string(), "inventory"])
    }

    /// Replaces the whole inventory of a listing.
    pub fn put_inventory(listing: u64, inventory: Value) -> Self {
        let mut call =
            Self::new("put_inventory", Method::PUT, &["listings", &listing.to_string(), "inventory"]);
        call.content = Content::Json(inventory);
        call
    }

    /// Changes fields of a listing. Neither price nor quantity nor SKU are among them: Etsy ignores those here.
    pub fn patch(shop: u64, listing: u64, fields: Vec<(String, String)>) -> Self {
        let path = ["shops", &shop.to_string(), "listings", &listing.to_string()];
        Self::new("patch", Method::PATCH, &path).form(fields)
    }

    fn form(mut self, fields: Vec<(String, String)>) -> Self {
        self.content = Content::Form(fields);
        self
    }

    /// What every answer to it has: one without is none, whatever its status says.
    pub(super) fn expected(&self) -> Option<&'static str> {
        match self.name {
            "ping" => Some("application_id"),
            "me" => Some("user_id"),
            "shop" => Some("shop_id"),
            "create_section" => Some("shop_section_id"),
            "patch" => Some("listing_id"),
            "inventory" | "put_inventory" => Some("products"),
            "sections" | "listings" | "batch" | "batch_inventory" => Some("results"),
            _ => None,
        }
    }

    /// Whether it changes something at Etsy.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// The body, and its type where there is one.
    pub(super) fn body(&self) -> (String, Option<&'static str>) {
        match &self.content {
            Content::Nothing => (String::new(), None),
            Content::Form(fields) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                (form.extend_pairs(fields).finish(), Some("application/x-www-form-urlencoded"))
            }
            Content::Json(value) => (value.to_string(), Some("application/json")),
        }
    }
}

fn joined(listings: &[u64]) -> String {
    let ids: Vec<String> = listings.iter().map(u64::to_string).collect();
    ids.join(",")
}
