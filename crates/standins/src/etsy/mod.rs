//! Etsy's Open API v3, with the rules of its published document: keys and
//! tokens, limits, pages that shift while they are read, inventories that are
//! replaced whole, and a ledger of fees.
//!
//! Beside the API there is an actor who is not us: the seller, who edits,
//! deletes and changes the password, and the buyers, who buy.

mod inventory;
mod limits;
mod listing;
mod rules;
mod state;
mod tokens;

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

pub use limits::{EtsyCall, TooMany};
pub use listing::NewListing;

use crate::server::Server;
use rules::Rules;
use state::State;

/// Milliseconds on a clock of the test's.
pub type EtsyClock = Arc<dyn Fn() -> u64 + Send + Sync>;

const KEYSTRING: &str = "standin-keystring";
const SHARED_SECRET: &str = "standin-canary-secret";

/// Etsy, with the API and the token endpoint on one host.
pub struct Etsy {
    server: Server,
    state: Arc<Mutex<State>>,
}

/// What a seller's app was given.
#[derive(Debug, Clone)]
pub struct EtsyTokens {
    /// Goes with every call.
    pub access: String,
    /// Good for one refresh.
    pub refresh: String,
}

impl Etsy {
    /// Starts it, without limits and without a shop, by the clock of the machine.
    pub async fn start() -> Self {
        let began = tokio::time::Instant::now();
        let ms = move || u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX) + 1_000_000;
        Self::start_by(Arc::new(ms)).await
    }

    /// Starts it by a clock of the test's.
    pub async fn start_by(clock: EtsyClock) -> Self {
        let state = Arc::new(Mutex::new(State::new(clock)));
        Self { server: Server::start(Rules(state.clone())).await, state }
    }

    /// What goes into `ETSY_KEYSTRING`.
    pub fn keystring(&self) -> String {
        KEYSTRING.to_owned()
    }

    /// What goes into `ETSY_SHARED_SECRET`.
    pub fn shared_secret(&self) -> String {
        SHARED_SECRET.to_owned()
    }

    /// What goes into `ETSY_TOKEN_URL`.
    pub fn token_url(&self) -> String {
        format!("{}/v3/public/oauth/token", self.server.url())
    }

    /// A new shop of a user, who has consented.
    pub fn add_shop(&self, shop: u64, user: u64) -> EtsyTokens {
        self.with(|state| {
            state.add_shop(shop, user);
            state.tokens.consent(user, state.now_ms())
        })
    }

    /// The user consents once more.
    pub fn consent(&self, user: u64) -> EtsyTokens {
        self.with(|state| state.tokens.consent(user, state.now_ms()))
    }

    /// The code that the user's browser brings back, for this challenge.
    pub fn code(&self, user: u64, challenge: &str, redirect: &str) -> String {
        self.with(|state| state.tokens.code(user, challenge, redirect))
    }

    /// A new listing; answers its id.
    pub fn add_listing(&self, shop: u64, listing: NewListing) -> u64 {
        self.with(|state| state.add_listing(shop, listing))
    }

    /// So many new listings of a state; answers their ids.
    pub fn fill(&self, shop: u64, count: usize, state: &'static str) -> Vec<u64> {
        (0..count)
            .map(|number| {
                self.add_listing(shop, NewListing::new(&format!("Thing {number} of {shop}")).state(state))
            })
            .collect()
    }

    /// A listing as it stands, with its inventory.
    pub fn listing(&self, listing: u64) -> Option<Value> {
        self.with(|state| state.listings.get(&listing).map(|listing| listing.full()))
    }

    /// All listings of a shop, by id.
    pub fn listings(&self, shop: u64) -> Vec<Value> {
        self.with(|state| state.of_shop(shop).map(|listing| listing.full()).collect())
    }

    /// The titles of a shop's sections.
    pub fn sections(&self, shop: u64) -> Vec<String> {
        self.with(|state| state.shops[&shop].sections.values().cloned().collect())
    }

    /// A section that the seller made.
    pub fn add_section(&self, shop: u64, title: &str) -> u64 {
        self.with(|state| state.add_section(shop, title))
    }

    /// Buyers buy so many of a listing's product. What is sold out is sold out.
    pub fn sell(&self, listing: u64, product: usize, count: i64) {
        self.with(|state| state.sell(listing, product, count));
    }

    /// The seller changes a field at Etsy itself.
    pub fn edit(&self, listing: u64, field: &str, value: impl Into<Value>) {
        self.with(|state| state.edit(listing, field, value.into()));
    }

    /// The seller deletes a listing at Etsy itself.
    pub fn delete(&self, listing: u64) {
        self.with(|state| drop(state.listings.remove(&listing)));
    }

    /// The user changes the password: all tokens are dead.
    pub fn change_password(&self, user: u64) {
        self.with(|state| state.tokens.revoke(user));
    }

    /// For how long access tokens are good from now on.
    pub fn token_seconds(&self, seconds: u64) {
        self.with(|state| state.tokens.seconds = seconds);
    }

    /// A refresh token that is used twice kills all tokens of its user.
    pub fn revoke_families(&self) {
        self.with(|state| state.tokens.revokes_families = true);
    }

    /// The next refresh answers 500, after it has rotated the token or before.
    pub fn lose_refresh(&self, rotated: bool) {
        self.with(|state| state.tokens.lose = Some(rotated));
    }

    /// How often tokens were refreshed.
    pub fn refreshes(&self) -> usize {
        self.with(|state| state.tokens.refreshes)
    }

    /// From now on there are limits, of the whole app or of each token.
    pub fn limit(&self, per_second: u32, per_day: u32, by_token: bool) {
        self.with(|state| state.limits.set(per_second, per_day, by_token));
    }

    /// How a call is turned away that is one too many.
    pub fn too_many(&self, how: TooMany) {
        self.with(|state| state.limits.too_many = how);
    }

    /// The head of an answer says what is left, in the truncated spelling or the full one; or nothing of it.
    pub fn quota_headers(&self, told: bool, truncated: bool) {
        self.with(|state| (state.limits.told, state.limits.truncated) = (told, truncated));
    }

    /// Calls of the app that are not ours, for the day's count.
    pub fn spend_elsewhere(&self, calls: u32) {
        self.with(|state| state.limits.elsewhere += calls);
    }

    /// Every call so far, with its time.
    pub fn calls(&self) -> Vec<EtsyCall> {
        self.with(|state| state.limits.calls.clone())
    }

    /// How many calls were turned away because of a limit.
    pub fn turned_away(&self) -> usize {
        self.with(|state| state.limits.calls.iter().filter(|call| call.status == 429).count())
    }

    /// The most calls of any stretch of `ms` milliseconds, of the app or of one token.
    pub fn most_within(&self, ms: u64, by_token: bool) -> usize {
        self.with(|state| limits::most_within(&state.limits.calls, ms, by_token))
    }

    /// What the listings' activations and renewals have cost the seller so far, in number.
    pub fn fees(&self) -> u64 {
        self.with(|state| state.fees)
    }

    /// What contradicted the published document, in sentences.
    pub fn violations(&self) -> Vec<String> {
        self.with(|state| state.violations.clone())
    }

    /// Changes of this field are answered with 200 and not made.
    pub fn lie_about(&self, field: &'static str) {
        self.with(|state| {
            state.lies.insert(field);
        });
    }

    /// Every page repeats some of the page before, and misses as many.
    pub fn shuffle_pages(&self, shuffled: bool) {
        self.with(|state| state.shuffled = shuffled);
    }

    /// After each page of listings something happens in the shop: the closure gets the number of the page.
    pub fn between_pages(&self, happens: impl FnMut(&mut EtsyShopkeeper<'_>, usize) + Send + 'static) {
        self.with(|state| state.between = Some(Box::new(happens)));
    }

    /// The SKUs are blank where inventories come along with a page.
    pub fn blank_skus(&self) {
        self.with(|state| state.blank_skus = true);
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for Etsy {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// What can happen in a shop between two pages.
pub struct EtsyShopkeeper<'s>(&'s mut State);

impl EtsyShopkeeper<'_> {
    /// A new listing.
    pub fn add(&mut self, shop: u64, listing: NewListing) -> u64 {
        self.0.add_listing(shop, listing)
    }

    /// A listing goes.
    pub fn delete(&mut self, listing: u64) {
        self.0.listings.remove(&listing);
    }

    /// Buyers buy.
    pub fn sell(&mut self, listing: u64, product: usize, count: i64) {
        self.0.sell(listing, product, count);
    }
}
