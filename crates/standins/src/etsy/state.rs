//! What Etsy knows.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::limits::Limits;
use super::listing::{Listing, NewListing};
use super::tokens::Tokens;
use super::{EtsyClock, EtsyShopkeeper};

pub(super) type Between = Box<dyn FnMut(&mut EtsyShopkeeper<'_>, usize) + Send>;

pub(super) struct Shop {
    pub(super) user: u64,
    pub(super) sections: BTreeMap<u64, String>,
}

pub(super) struct State {
    clock: EtsyClock,
    pub(super) shops: BTreeMap<u64, Shop>,
    pub(super) listings: BTreeMap<u64, Listing>,
    pub(super) tokens: Tokens,
    pub(super) limits: Limits,
    pub(super) fees: u64,
    pub(super) violations: Vec<String>,
    pub(super) lies: HashSet<&'static str>,
    pub(super) shuffled: bool,
    pub(super) blank_skus: bool,
    pub(super) between: Option<Between>,
    pub(super) pages: usize,
    next_id: u64,
}

impl State {
    pub(super) fn new(clock: EtsyClock) -> Self {
        Self {
            clock,
            shops: BTreeMap::new(),
            listings: BTreeMap::new(),
            tokens: Tokens::default(),
            limits: Limits::default(),
            fees: 0,
            violations: Vec::new(),
            lies: HashSet::new(),
            shuffled: false,
            blank_skus: false,
            between: None,
            pages: 0,
            next_id: 1_000_000,
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    pub(super) fn now_s(&self) -> u64 {
        self.now_ms() / 1000
    }

    /// Ids of everything are given out in one row, as large as Etsy's own.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn add_shop(&mut self, shop: u64, user: u64) {
        self.shops.insert(shop, Shop { user, sections: BTreeMap::new() });
    }

    pub(super) fn add_section(&mut self, shop: u64, title: &str) -> u64 {
        let id = self.id();
        if let Some(shop) = self.shops.get_mut(&shop) {
            shop.sections.insert(id, title.to_owned());
        }
        id
    }

    pub(super) fn add_listing(&mut self, shop: u64, new: NewListing) -> u64 {
        let (id, now_s) = (self.id(), self.now_s());
        let user = self.shops[&shop].user;
        let images = (0..new.images).map(|_| self.id()).collect();
        let inventory = new.inventory(&mut || self.id());
        self.listings.insert(id, Listing::new(id, shop, user, new, inventory, images, now_s));
        id
    }

    pub(super) fn of_shop(&self, shop: u64) -> impl Iterator<Item = &Listing> {
        self.listings.values().filter(move |listing| listing.shop == shop)
    }

    /// How many calls there were so far that asked for a page: something may happen after this one.
    pub(super) fn after_page(&mut self) {
        self.pages += 1;
        let page = self.pages;
        if let Some(mut happens) = self.between.take() {
            happens(&mut EtsyShopkeeper(self), page);
            self.between = Some(happens);
        }
    }

    pub(super) fn sell(&mut self, listing: u64, product: usize, count: i64) {
        let now_s = self.now_s();
        if let Some(listing) = self.listings.get_mut(&listing) {
            listing.sell(product, count, now_s);
        }
    }

    pub(super) fn edit(&mut self, listing: u64, field: &str, value: Value) {
        let now_s = self.now_s();
        if let Some(listing) = self.listings.get_mut(&listing) {
            match field {
                "image_ids" => {
                    let ids = value.as_array().into_iter().flatten();
                    listing.images = ids.filter_map(Value::as_u64).collect();
                }
                field => listing.fields[field] = value,
            }
            listing.touch(now_s);
        }
    }

    pub(super) fn shop_object(&self, shop: u64) -> Option<Value> {
        let found = self.shops.get(&shop)?;
        let active = self.of_shop(shop).filter(|listing| listing.state() == "active").count();
        Some(json!({
            "shop_id": shop,
            "user_id": found.user,
            "shop_name": format!("Shop{shop}"),
            "create_date": 1_500_000_000,
            "created_timestamp": 1_500_000_000,
            "update_date": self.now_s(),
            "updated_timestamp": self.now_s(),
            "listing_active_count": active,
            "currency_code": "EUR",
            "is_vacation": false,
            "languages": ["de", "en-US"],
            "url": format!("https://www.etsy.com/shop/Shop{shop}"),
        }))
    }
}
