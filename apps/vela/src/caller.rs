//! Calls to Etsy for a task: through the gate, with a good token, tried again
//! where that helps, and never without the lease.

use std::time::Duration;

use serde_json::Value;
use windlass_engine::{Context, Failure};
use windlass_outside::etsy::{Call, EtsyError, Quota, Told, Window};
use windlass_outside::retry_after::RetryAfter;
use windlass_outside::secret::Secret;

use crate::shop::ShopId;
use crate::sync::Sync;
use crate::trouble::Trouble;

/// How often a call is made on the spot while Etsy is in trouble.
pub(crate) const TRIES_MAX: u32 = 3;
/// How often a call waits for the limit of a second before the task is tried later.
const SECONDS_MAX: u32 = 20;
/// A wait that is longer than this is waited for by the shop, and not by the task.
const WAIT_MS_MAX: u64 = 5_000;
/// What Etsy's limit of a second costs when it does not say.
const SECOND_MS: u64 = 1_000;
/// What its limit of a day costs when it does not say.
const DAY_MS_UNTOLD: u64 = 3_600_000;
const DAY_MS_MAX: u64 = 86_400_000;

/// Who calls: a task of a shop.
pub struct Caller<'t> {
    pub(crate) sync: &'t Sync,
    pub(crate) ctx: &'t Context,
    pub(crate) shop: ShopId,
    /// A user waits for what the task does: it may use the whole day.
    pub(crate) is_for_user: bool,
}

impl Caller<'_> {
    /// Makes a call.
    pub async fn call(&self, call: &Call) -> Result<Value, Trouble> {
        self.call_within(call, TRIES_MAX).await
    }

    /// Makes a call once: for what must not be repeated before somebody has looked what became of it.
    pub async fn call_once(&self, call: &Call) -> Result<Value, Trouble> {
        self.call_within(call, 1).await
    }

    async fn call_within(&self, call: &Call, tries_max: u32) -> Result<Value, Trouble> {
        let (mut tries, mut seconds) = (0, 0);
        let mut refused: Option<Secret<String>> = None;
        loop {
            self.ctx.go_on().await?;
            let sync = self.sync;
            let token = sync.keyring.access(&sync.etsy, self.ctx, self.shop, refused.as_ref()).await?;
            let Told { quota: _, said } = self.ask(call, &token).await?;
            let error = match said {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tracing::debug!(
                shop = self.shop,
                call = call.name,
                code = error.code(),
                "A call was not answered"
            );
            match error {
                EtsyError::Unauthorized if refused.is_none() => refused = Some(token),
                EtsyError::Unauthorized => {
                    return Err(Trouble::Forbidden {
                        said: "a token that was just refreshed is not taken".to_owned(),
                    });
                }
                // It may be the app's key: the seller's consent is not given up for that.
                EtsyError::Revoked { said } | EtsyError::Forbidden { said } => {
                    return Err(Trouble::Forbidden { said });
                }
                EtsyError::NotFound { .. } | EtsyError::Refused { .. } => {
                    return Err(Trouble::Refused(error));
                }
                EtsyError::RateLimit { window: Window::Second, retry_after } if seconds < SECONDS_MAX => {
                    seconds += 1;
                    let ms = self.delay_ms(retry_after).unwrap_or(SECOND_MS).max(1);
                    sync.gate.cool_down(self.shop, ms).await?;
                }
                EtsyError::RateLimit { retry_after, .. } => {
                    let ms = self.delay_ms(retry_after).unwrap_or(DAY_MS_UNTOLD).clamp(SECOND_MS, DAY_MS_MAX);
                    sync.gate.cool_down(self.shop, ms).await?;
                    return Err(Trouble::Quota { wait: Duration::from_millis(ms) });
                }
                error => {
                    tries += 1;
                    if tries >= tries_max || !error.is_transient() {
                        return Err(Trouble::Away(error));
                    }
                    let ms = (300 << tries) + sync.world.chance() % 200;
                    self.ctx.sleep(Duration::from_millis(ms)).await?;
                }
            }
        }
    }

    /// Asks once, when the gate says so.
    async fn ask(&self, call: &Call, token: &Secret<String>) -> Result<Told<Value>, Trouble> {
        let gate = &self.sync.gate;
        loop {
            let permit = match gate.ask(self.shop, self.is_for_user).await? {
                Ok(permit) => permit,
                Err(ms) if ms > WAIT_MS_MAX => {
                    return Err(Trouble::Quota { wait: Duration::from_millis(ms) });
                }
                Err(ms) => {
                    self.ctx.sleep(Duration::from_millis(ms)).await?;
                    continue;
                }
            };
            // Whoever stood still behind the grant, or has lost the task meanwhile, must not call.
            let may: Result<(), Failure> = self.ctx.go_on().await;
            if may.is_err() || !gate.is_fresh(&permit) {
                gate.ended(permit, Quota::default()).await?;
                may?;
                continue;
            }
            let told = self.sync.etsy.send(call, token).await;
            gate.ended(permit, told.quota).await?;
            return Ok(told);
        }
    }

    fn delay_ms(&self, retry_after: Option<RetryAfter>) -> Option<u64> {
        let now_ms = u64::try_from(self.sync.world.wall().ms()).unwrap_or(0);
        retry_after.map(|after| u64::try_from(after.delay(now_ms).as_millis()).unwrap_or(u64::MAX))
    }
}
