//! The tokens of shops: taken out, refreshed by one at a time, and stored
//! before they are used.

use std::sync::Arc;
use std::time::Duration;

use windlass_engine::world::World;
use windlass_engine::{Change, Client, Context, Shelf, ShelfError, Time};
use windlass_outside::etsy::{Etsy, EtsyError, Tokens};
use windlass_outside::secret::Secret;

use crate::shop::{Connection, Refreshing, ShopId};
use crate::trouble::Trouble;

/// A token that is good for less than this is refreshed before it is used.
const EARLY_MS: i64 = 30_000;
/// How often a refresh is asked for within one attempt: the endpoint is known to stumble.
const TRIES_MAX: u32 = 3;
/// How long a lock is left to its owner beyond the call itself.
const LOCK_SLACK_MS: u64 = 5_000;
/// How often tokens are tried to be stored: without that they are lost for good.
const STORE_TRIES_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(200);

/// Where the tokens are.
pub struct Keyring {
    client: Client,
    shelf: Shelf<Connection>,
    world: Arc<dyn World>,
}

impl Keyring {
    /// The tokens on this shelf.
    pub fn new(client: Client, shelf: Shelf<Connection>, world: Arc<dyn World>) -> Self {
        Self { client, shelf, world }
    }

    /// The access token of a shop, refreshed when it is about to run out, or when it is the one that Etsy would
    /// not take.
    pub async fn access<S>(
        &self,
        etsy: &Etsy,
        ctx: &Context<S>,
        shop: ShopId,
        refused: Option<&Secret<String>>,
    ) -> Result<Secret<String>, Trouble> {
        loop {
            let Some(found) = self.shelf.get(shop).await? else {
                return Err(Trouble::Reconnect { said: "the shop is not connected".to_owned() });
            };
            let Connection { access_token, refresh_token, expires_at, refreshing, lost } =
                found.value.clone();
            if let Some(said) = lost {
                return Err(Trouble::Reconnect { said });
            }
            let now = self.client.store().now().await?;
            let is_refused = refused.is_some_and(|refused| *refused.expose() == access_token);
            if !is_refused && now.plus_ms(EARLY_MS) < expires_at {
                return Ok(Secret::new(access_token));
            }
            if refreshing.is_some_and(|lock| now < lock.until) {
                ctx.sleep(PAUSE).await?;
                continue;
            }
            let Some(lock) = self.lock(etsy, shop, found.rev, found.value, now).await? else { continue };
            return self.refresh(etsy, ctx, shop, &lock, &Secret::new(refresh_token)).await;
        }
    }

    /// Takes the lock, unless somebody else was faster.
    async fn lock(
        &self,
        etsy: &Etsy,
        shop: ShopId,
        rev: u64,
        mut connection: Connection,
        now: Time,
    ) -> Result<Option<String>, ShelfError> {
        let by = format!("{:016x}", self.world.chance());
        let total_ms = u64::try_from(etsy.total().as_millis()).unwrap_or(u64::MAX);
        let lock_ms = (total_ms + LOCK_SLACK_MS) * u64::from(TRIES_MAX);
        let until = now.plus_ms(i64::try_from(lock_ms).unwrap_or(i64::MAX));
        connection.refreshing = Some(Refreshing { by: by.clone(), until });
        let mut batch = self.client.batch();
        batch.put(&self.shelf, shop, &connection).if_rev(rev);
        match batch.commit().await {
            Ok(_) => Ok(Some(by)),
            Err(ShelfError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn refresh<S>(
        &self,
        etsy: &Etsy,
        ctx: &Context<S>,
        shop: ShopId,
        lock: &str,
        refresh: &Secret<String>,
    ) -> Result<Secret<String>, Trouble> {
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match etsy.refresh(refresh).await {
                Ok(tokens) => {
                    tracing::info!(shop, "Refreshed the token of a shop");
                    return self.keep(shop, lock, tokens).await;
                }
                Err(error) => error,
            };
            if let EtsyError::Revoked { said } = &error {
                let said = said.clone();
                tracing::warn!(shop, code = error.code(), "Etsy takes the tokens of a shop no more");
                self.lose(shop, lock, &said).await?;
                return Err(Trouble::Reconnect { said });
            }
            if tries == TRIES_MAX || !error.is_transient() {
                self.unlock(shop, lock).await?;
                return Err(Trouble::Away(error));
            }
            ctx.sleep(PAUSE).await?;
        }
    }

    /// Stores new tokens, whatever has become of the task: the old ones are dead.
    async fn keep(&self, shop: ShopId, lock: &str, tokens: Tokens) -> Result<Secret<String>, Trouble> {
        let Tokens { access, refresh, expires_in } = tokens;
        let mut tries = 0;
        loop {
            tries += 1;
            let stored = async {
                let now = self.client.store().now().await?;
                let ms = i64::try_from(expires_in.saturating_mul(1000)).unwrap_or(i64::MAX);
                let change = |connection: &mut Connection| {
                    connection.access_token = access.expose().clone();
                    connection.refresh_token = refresh.expose().clone();
                    connection.expires_at = now.plus_ms(ms);
                    connection.refreshing = None;
                };
                self.change(shop, lock, change).await
            };
            match stored.await {
                // The seller connected the shop anew meanwhile: those tokens are the newer ones.
                Ok(connection) => return Ok(Secret::new(connection.access_token)),
                Err(error) if tries == STORE_TRIES_MAX => return Err(error.into()),
                Err(_) => self.world.sleep_ms(200).await,
            }
        }
    }

    async fn lose(&self, shop: ShopId, lock: &str, said: &str) -> Result<(), ShelfError> {
        let change = |connection: &mut Connection| {
            connection.lost = Some(said.to_owned());
            connection.refreshing = None;
        };
        self.change(shop, lock, change).await.map(drop)
    }

    async fn unlock(&self, shop: ShopId, lock: &str) -> Result<(), ShelfError> {
        self.change(shop, lock, |connection| connection.refreshing = None).await.map(drop)
    }

    /// Changes the tokens as long as the lock is ours; gives what is there afterwards.
    async fn change(
        &self,
        shop: ShopId,
        lock: &str,
        mut change: impl FnMut(&mut Connection) + Send,
    ) -> Result<Connection, ShelfError> {
        let mut there = None;
        let update = self.shelf.update(shop, |had| {
            let Some(mut connection) = had.map(|had| had.value) else { return Change::Leave };
            let is_ours = connection.refreshing.as_ref().is_some_and(|found| found.by == lock);
            if is_ours {
                change(&mut connection);
            }
            there = Some(connection.clone());
            if is_ours { Change::from(connection) } else { Change::Leave }
        });
        update.await?;
        there.ok_or_else(|| {
            windlass_engine::StoreError::Unavailable("the connection is gone".to_owned()).into()
        })
    }
}
