//! Shops and their listings, as users work with them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_engine::{Client, Entry, ShelfError, Time};

use crate::book::{Shelves, listing_key};
use crate::fields::{self, Fields, Sections, Wish};
use crate::listing::{Listing, Standing};
use crate::shop::{Connection, Interval, ListingId, Shop, ShopId};
use crate::task::TaskKind;
use crate::tasks::{Asked, Tasks};

/// How often an edit begins anew because somebody else was faster.
const TRIES_MAX: u32 = 50;

/// Shops, listings and the tasks that follow from what users do.
#[derive(Clone)]
pub struct Office {
    pub(crate) client: Client,
    pub(crate) shelves: Shelves,
    pub(crate) tasks: Tasks,
}

/// A connection that a seller has consented to.
pub struct NewConnection {
    /// The shop.
    pub shop_id: ShopId,
    /// Its user.
    pub user_id: u64,
    /// Goes with every call.
    pub access_token: String,
    /// Good for one refresh.
    pub refresh_token: String,
    /// Until then the access token is good.
    pub expires_at: Time,
    /// How often the shop is downloaded, unless as all.
    pub interval: Option<Interval>,
}

/// Why an edit was not made.
#[derive(Debug)]
pub enum EditError {
    /// There is no such shop, or no such listing in it.
    NotFound,
    /// The listing is gone at Etsy.
    Deleted,
    /// These fields cannot be so.
    Wrong(BTreeMap<String, String>),
    /// The store could not do it.
    Shelf(ShelfError),
}

impl<E: Into<ShelfError>> From<E> for EditError {
    fn from(error: E) -> Self {
        Self::Shelf(error.into())
    }
}

/// What an edit did.
#[derive(Debug)]
pub struct Edited {
    /// The listing as it is now.
    pub listing: Listing,
    /// The task that will send it, when there is something to send.
    pub task: Option<Asked>,
}

/// How a conflict is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// What was sent is right: forget the conflict.
    Local,
    /// What was at Etsy is right: send it back.
    Remote,
    /// Forget what was never sent.
    Discard,
}

impl Office {
    /// The shops of a store.
    pub fn new(client: Client, tasks: Tasks) -> Self {
        Self { shelves: Shelves::of(&client), client, tasks }
    }

    /// Adds a shop, or gives one that is there new tokens. Its first download begins at once, and tasks that
    /// waited for the seller go on. Answers whether the shop is new.
    pub async fn connect(&self, new: NewConnection) -> Result<bool, ShelfError> {
        let NewConnection { shop_id, user_id, access_token, refresh_token, expires_at, interval } = new;
        let now = self.client.store().now().await?;
        let connection = Connection { access_token, refresh_token, expires_at, refreshing: None, lost: None };
        let had = self.shelves.shops.get(shop_id).await?;
        let (is_new, had_interval) = (had.is_none(), had.as_ref().and_then(|had| had.value.interval));
        let shop = match had {
            Some(had) => Shop { user_id, interval: interval.or(had.value.interval), ..had.value },
            None => Shop {
                shop_id,
                user_id,
                name: None,
                currency: None,
                sections: Sections::new(),
                interval,
                added_at: now,
            },
        };
        let mut batch = self.client.batch();
        batch.put(&self.shelves.shops, shop_id, &shop);
        batch.put(&self.shelves.connections, shop_id, &connection);
        if is_new {
            batch.enqueue(self.tasks.first_download(shop_id));
        }
        batch.commit().await?;
        if is_new || interval.is_some_and(|interval| Some(interval) != had_interval) {
            self.tasks.schedule(shop_id, shop.interval).await?;
        }
        if !is_new {
            self.tasks.wake(shop_id).await?;
        }
        Ok(is_new)
    }

    /// Sees to it that every shop has its schedule: one whose adding was interrupted may have none.
    pub async fn mend_schedules(&self) -> Result<(), ShelfError> {
        let had: std::collections::BTreeSet<String> =
            self.client.store().schedules().await?.into_iter().map(|one| one.name.to_string()).collect();
        let mut after = None;
        loop {
            let page = self.shelves.shops.scan().limit(500).after(after).await?;
            for shop in page.entries {
                let Shop { shop_id, interval, .. } = shop.value;
                if !had.contains(&crate::task::schedule_name(shop_id)) {
                    self.tasks.schedule(shop_id, interval).await?;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// One listing.
    pub async fn listing(
        &self,
        shop: ShopId,
        listing: ListingId,
    ) -> Result<Option<(Listing, Sections)>, ShelfError> {
        let Some(sections) = self.sections(shop).await? else { return Ok(None) };
        let found = self.shelves.listings.get(listing_key(shop, listing)).await?;
        Ok(found.map(|found| (found.value, sections)))
    }

    pub(crate) async fn sections(&self, shop: ShopId) -> Result<Option<Sections>, ShelfError> {
        Ok(self.shelves.shops.get(shop).await?.map(|shop| shop.value.sections))
    }

    /// Changes fields of a listing, and asks for their upload in the same commit.
    pub async fn edit(
        &self,
        shop: ShopId,
        id: ListingId,
        body: &Map<String, Value>,
    ) -> Result<Edited, EditError> {
        self.change(shop, id, |listing, sections| {
            if listing.deleted_at.is_some() {
                return Err(EditError::Deleted);
            }
            let had = fields::of_remote(&listing.remote, sections);
            let wish = Wish::read(body, &had).map_err(EditError::Wrong)?;
            Ok(listing.wish(wish, sections))
        })
        .await
    }

    /// Settles the conflicts of a listing, of one field or of all.
    pub async fn settle(
        &self,
        shop: ShopId,
        id: ListingId,
        field: Option<&str>,
        take: Take,
    ) -> Result<Edited, EditError> {
        self.change(shop, id, |listing, sections| {
            let is_meant = |name: &str| field.is_none_or(|field| field == name);
            let (meant, kept) = listing.conflicts.drain(..).partition(|conflict| is_meant(&conflict.field));
            listing.conflicts = kept;
            let meant: Vec<crate::merge::Conflict> = meant;
            match take {
                Take::Local => {}
                Take::Discard => {
                    listing.changes.retain(|name, _| !is_meant(name));
                    listing.error = None;
                }
                Take::Remote => {
                    let fields: Fields = meant
                        .iter()
                        .map(|conflict| (conflict.field.clone(), conflict.remote.clone()))
                        .collect();
                    listing.wish(Wish { fields, accepts_fee: false }, sections);
                }
            }
            Ok(true)
        })
        .await
    }

    async fn change(
        &self,
        shop: ShopId,
        id: ListingId,
        change: impl Fn(&mut Listing, &Sections) -> Result<bool, EditError>,
    ) -> Result<Edited, EditError> {
        let sections = self.sections(shop).await?.ok_or(EditError::NotFound)?;
        for _ in 0..TRIES_MAX {
            let found: Option<Entry<Listing>> = self.shelves.listings.get(listing_key(shop, id)).await?;
            let found = found.ok_or(EditError::NotFound)?;
            let mut listing = found.value;
            let is_changed = change(&mut listing, &sections)?;
            if !is_changed {
                return Ok(Edited { listing, task: None });
            }
            match self.store(shop, &listing, found.rev).await {
                Err(ShelfError::Conflict { .. }) => {}
                stored => return Ok(Edited { listing, task: stored? }),
            }
        }
        Err(windlass_engine::StoreError::Busy("too many change this listing at once".to_owned()).into())
    }

    async fn store(&self, shop: ShopId, listing: &Listing, rev: u64) -> Result<Option<Asked>, ShelfError> {
        let standing = listing.standing();
        let mut batch = self.client.batch();
        batch
            .put(&self.shelves.listings, listing_key(shop, listing.listing_id), listing)
            .if_rev(rev)
            .label(standing.as_str());
        let kind = TaskKind::UploadChanges;
        if standing == Standing::Dirty {
            batch.enqueue(crate::task::request(kind, shop).dedupe_key(kind.dedupe_key(shop)));
        }
        match batch.commit().await?.jobs.first() {
            // An upload that is running may have looked before: then another one is queued.
            Some(first) => Ok(Some(self.tasks.not_running(kind, shop, *first).await?)),
            None => Ok(None),
        }
    }
}

/// A listing as users see it: as they want it to be, and what of that Etsy knows.
pub fn view(listing: &Listing, sections: &Sections) -> Value {
    let mut fields = fields::of_remote(&listing.remote, sections);
    for (name, change) in &listing.changes {
        fields.insert(name.clone(), change.value.clone());
    }
    let mut shown = Map::new();
    let mut variants: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (name, value) in fields {
        match name.strip_prefix("variants/").and_then(|rest| rest.rsplit_once('/')) {
            Some((key, field)) => {
                variants.entry(key.to_owned()).or_default().insert(field.to_owned(), value);
            }
            None => drop(shown.insert(name, value)),
        }
    }
    if !variants.is_empty() {
        let total: i64 = variants.values().filter_map(|variant| variant.get("quantity")?.as_i64()).sum();
        let prices = variants.values().filter_map(|variant| variant.get("price")?.as_f64());
        shown.insert("quantity".to_owned(), json!(total));
        shown.insert("price".to_owned(), prices.reduce(f64::min).map_or(Value::Null, |price| json!(price)));
        shown.insert("variants".to_owned(), json!(variants));
    }
    let changes: BTreeMap<&String, Value> = listing
        .changes
        .iter()
        .map(|(name, change)| (name, json!({"value": change.value, "base": change.base})))
        .collect();
    let standing = listing.standing();
    shown.insert("listing_id".to_owned(), json!(listing.listing_id));
    shown.insert("url".to_owned(), listing.remote["url"].clone());
    shown.insert("status".to_owned(), json!(standing.as_str()));
    shown.insert("dirty".to_owned(), json!(standing.has_unsent()));
    shown.insert("changes".to_owned(), json!(changes));
    shown.insert("conflicts".to_owned(), json!(listing.conflicts));
    shown.insert("error".to_owned(), json!(listing.error));
    shown.insert("deleted_at".to_owned(), json!(listing.deleted_at));
    shown.insert("images".to_owned(), listing.remote["images"].clone());
    shown.insert("translations".to_owned(), listing.remote["translations"].clone());
    Value::Object(shown)
}
