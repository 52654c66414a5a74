//! `windlass vela connect SHOP`: consent in a browser, and the tokens that follow from it.

use tokio::io::{AsyncBufReadExt, BufReader};
use url::Url;
use windlass_app::{AppError, Exit, Host, say};
use windlass_engine::Client;
use windlass_outside::etsy::{AppKey, Call, Consent, user_of};

use crate::office::{NewConnection, Office};
use crate::settings::{self, EtsySettings, TaskSettings};
use crate::shop::{Interval, ShopId};
use crate::sync::Sync;

pub(crate) async fn run(host: &Host, shop: ShopId, interval: Option<Interval>) -> Result<Exit, AppError> {
    let (tasks, etsy, (connect, redirect), store) = settings::read(&host.environment, |reading| {
        let tasks = TaskSettings::read(reading);
        let etsy = EtsySettings::read(reading, tasks.lease);
        (tasks, etsy, EtsySettings::read_consent(reading), settings::store(reading))
    })?;
    let store = host.stores.open(&store).await?;
    store.records()?;
    let sync = Sync::new(store.clone(), host.world.clone(), &etsy, &tasks)?;
    let consent = Consent::new(redirect, &chance()?);
    let key = AppKey { keystring: etsy.keystring.clone(), shared_secret: etsy.shared_secret.clone() };
    say!("Open this link in a browser, as the seller of shop {shop}:\n\n{}\n", consent.link(&connect, &key));
    say!("Then paste the address that the browser was sent to, and press Enter:");
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await?;
    let back = Url::parse(line.trim()).map_err(|_| "that is not an address; nothing was changed")?;
    let code = consent.code(&back).map_err(|why| format!("that address cannot be used: {why}"))?;
    let tokens = sync.etsy.exchange(&consent, &code).await?;
    let me = ask(&sync, shop, &tokens.access).await?;
    if me["shop_id"].as_u64() != Some(shop) {
        eprintln!("error: the one who consented is not the seller of shop {shop}; nothing was changed");
        return Ok(Exit::REFUSED);
    }
    let user_id = user_of(&tokens.access).or(me["user_id"].as_u64()).unwrap_or_default();
    let client = Client::in_world(store, host.world.clone());
    let ms = i64::try_from(tokens.expires_in.saturating_mul(1000)).unwrap_or(i64::MAX);
    let expires_at = client.store().now().await?.plus_ms(ms);
    let new = NewConnection {
        shop_id: shop,
        user_id,
        access_token: tokens.access.into_exposed(),
        refresh_token: tokens.refresh.into_exposed(),
        expires_at,
        interval,
    };
    let is_new = Office::new(client, sync.tasks.clone()).connect(new).await?;
    match is_new {
        true => say!("Shop {shop} is connected; its first download is queued."),
        false => say!("Shop {shop} is connected again; its tasks go on."),
    }
    Ok(Exit::DONE)
}

/// Who has consented. This call counts as all others do.
async fn ask(
    sync: &Sync,
    shop: ShopId,
    token: &windlass_outside::secret::Secret<String>,
) -> Result<serde_json::Value, AppError> {
    let permit = loop {
        match sync.gate.ask(shop, true).await? {
            Ok(permit) => break permit,
            Err(ms) if ms > 60_000 => {
                return Err("Etsy's limit of calls is reached for today; connect the shop tomorrow".into());
            }
            Err(ms) => sync.world.sleep_ms(ms).await,
        }
    };
    let told = sync.etsy.send(&Call::me(), token).await;
    sync.gate.ended(permit, told.quota).await?;
    Ok(told.said?)
}

/// Bytes that nobody can guess.
fn chance() -> Result<[u8; 64], AppError> {
    let mut bytes = [0; 64];
    let read = |bytes: &mut [u8]| std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, bytes);
    read(&mut bytes).map_err(|error| format!("the machine gives no chance: {error}"))?;
    Ok(bytes)
}
