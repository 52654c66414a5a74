//! Sends the changes of one listing, step by step: its fields, its inventory,
//! and a change of its state last. What each step has done is stored before
//! the next one begins.

use serde_json::{Value, json};
use tokio::sync::Mutex;
use windlass_engine::{Change, Draft};
use windlass_outside::etsy::{Call, EtsyError};

use super::Attempt;
use crate::book::listing_key;
use crate::caller::TRIES_MAX;
use crate::fields::{self, Fields, Sections};
use crate::listing::{Listing, Sending};
use crate::merge::{Merged, merge};
use crate::shop::ListingId;
use crate::trouble::Trouble;
use crate::variants;

const FEE: &str =
    "this would put the listing on sale again, which costs a listing fee; send it again with accept_fee";

/// What became of a listing.
#[derive(Debug)]
pub(super) enum Sent {
    /// Etsy knows all.
    Done,
    /// Etsy does not take it, or it is gone; that is written down with the listing.
    Refused,
    /// Etsy did not answer.
    Away(EtsyError),
}

/// Why a step did not come to its end.
enum Halt {
    /// It is the listing's affair.
    Refused(String),
    /// The listing is gone.
    Gone,
    /// It is the whole task's affair.
    Trouble(Trouble),
}

impl<T: Into<Trouble>> From<T> for Halt {
    fn from(trouble: T) -> Self {
        match trouble.into() {
            Trouble::Refused(EtsyError::NotFound { .. }) => Self::Gone,
            Trouble::Refused(error) => Self::Refused(Trouble::Refused(error).message()),
            trouble => Self::Trouble(trouble),
        }
    }
}

impl Attempt<'_> {
    /// Sends the changes of a listing. Only what stops the whole task is an error.
    pub(super) async fn send(
        &self,
        listing: Listing,
        remote: Option<Value>,
        sections: &Mutex<Sections>,
    ) -> Result<Sent, Trouble> {
        let (id, rev) = (listing.listing_id, listing.rev);
        let halted = match remote {
            None => Err(Halt::Gone),
            Some(remote) => self.send_steps(listing, remote, sections).await,
        };
        match halted {
            Ok(()) => Ok(Sent::Done),
            Err(Halt::Trouble(Trouble::Away(error))) => Ok(Sent::Away(error)),
            Err(Halt::Trouble(trouble)) => Err(trouble),
            Err(Halt::Gone) => {
                self.deleted(id).await?;
                let message = "The listing is gone at Etsy; your changes are kept".to_owned();
                self.note("conflict_deleted", message, Some(id)).await?;
                Ok(Sent::Refused)
            }
            Err(Halt::Refused(message)) => {
                self.refused(id, rev, &message).await?;
                Ok(Sent::Refused)
            }
        }
    }

    async fn send_steps(
        &self,
        mut listing: Listing,
        remote: Value,
        sections: &Mutex<Sections>,
    ) -> Result<(), Halt> {
        listing.answered(&remote);
        self.send_fields(&listing, &remote, sections).await?;
        self.send_inventory(&listing, sections).await?;
        self.send_state(&listing, sections).await
    }

    /// The fields that a PATCH can change, the state aside.
    async fn send_fields(
        &self,
        listing: &Listing,
        remote: &Value,
        sections: &Mutex<Sections>,
    ) -> Result<(), Halt> {
        let is_ours = |name: &str| !fields::is_of_inventory(name) && name != "state";
        let (mut local, base) = listing.changes_to(listing.rev);
        local.retain(|name, _| is_ours(name));
        if local.is_empty() {
            return Ok(());
        }
        let known = sections.lock().await.clone();
        let Merged { send, mut conflicts, unknown: _ } =
            merge(&local, &base, &fields::plain_of_remote(remote, &known));
        conflicts.retain(|conflict| !listing.is_our_word(conflict));
        let mut answer = remote.clone();
        if !conflicts.is_empty() {
            // Before the call: whoever comes after a crash finds the user's word at Etsy, and nothing to compare.
            self.change(listing.listing_id, |listing| listing.conflicted(conflicts.clone())).await?;
        }
        if !send.is_empty() {
            let section = match send.get("section").and_then(Value::as_str) {
                Some(title) => Some(self.section(title, sections).await?),
                None => None,
            };
            let form = fields::form(&send, |_| section);
            let patched = self.caller.call(&Call::patch(self.shop, listing.listing_id, form)).await?;
            answer = with_images(patched, remote, &send);
        }
        let known = sections.lock().await.clone();
        let not_done = not_done(&send, &fields::plain_of_remote(&answer, &known));
        let rev = listing.rev;
        self.change(listing.listing_id, |listing| {
            listing.answered(&answer);
            listing.sent(|name| is_ours(name) && !not_done.iter().any(|not| not == name), rev, &send, &known);
        })
        .await?;
        refuse_lies(&not_done)
    }

    /// The inventory: read, changed, written whole. Before it is written, the products' numbers are put down; when
    /// they are other ones later, the write has arrived, whatever became of its answer.
    async fn send_inventory(&self, listing: &Listing, sections: &Mutex<Sections>) -> Result<(), Halt> {
        let has_inventory = listing.changes.keys().any(|name| fields::is_of_inventory(name));
        if !has_inventory && listing.sending.is_none() {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_inventory(listing.listing_id, listing.rev, sections).await {
                Err(Halt::Trouble(Trouble::Away(_))) if tries < TRIES_MAX => {
                    let ms = (300 << tries) + self.sync.world.chance() % 200;
                    self.ctx.sleep(std::time::Duration::from_millis(ms)).await?;
                }
                done => return done,
            }
        }
    }

    async fn try_inventory(&self, id: ListingId, rev: u64, sections: &Mutex<Sections>) -> Result<(), Halt> {
        let known = sections.lock().await.clone();
        let inventory = self.caller.call(&Call::inventory(id)).await?;
        let there = variants::numbers(&inventory);
        let now = variants::fields(&inventory);
        let listing = self
            .change(id, |listing| {
                let arrived = listing.sending.take().filter(|sending| sending.has_arrived(&there, &now));
                listing.remote["inventory"] = inventory.clone();
                if let Some(Sending { rev, sent, products: _ }) = arrived {
                    listing.conflicted(listing.fewer(&sent, &now));
                    listing.sent(fields::is_of_inventory, rev, &sent, &known);
                }
            })
            .await?;
        let Some(listing) = listing else { return Err(Halt::Gone) };
        let (mut local, base) = listing.changes_to(rev);
        local.retain(|name, _| fields::is_of_inventory(name));
        let Merged { send, conflicts, unknown } = merge(&local, &base, &now);
        if let Some(name) = unknown.first() {
            return Err(Halt::Refused(format!("{name} is no variant of the listing any more")));
        }
        let (mut after, mut is_renewed) = (inventory, false);
        if !send.is_empty() {
            let body = variants::replaced(&after, &send);
            let is_sold_out = variants::total(&after) == 0 && listing.remote["state"] != json!("draft");
            let fills =
                send.iter().any(|(name, value)| fields::is_quantity(name) && value.as_i64() > Some(0));
            if is_sold_out && fills && !listing.accepts_fee {
                return Err(Halt::Refused(FEE.to_owned()));
            }
            is_renewed = is_sold_out && fills;
            let sending = Sending { rev, products: there, sent: send.clone() };
            self.change(id, |listing| {
                listing.sending = Some(sending.clone());
                listing.conflicted(conflicts.clone());
            })
            .await?;
            after = match self.caller.call_once(&Call::put_inventory(id, body)).await {
                Err(Trouble::Refused(error)) => {
                    self.change(id, |listing| listing.sending = None).await?;
                    return Err(Trouble::Refused(error).into());
                }
                answered => answered?,
            };
        }
        self.change(id, |listing| {
            listing.sending = None;
            listing.answered(&json!({ "inventory": after }));
            listing.sent(fields::is_of_inventory, rev, &send, &known);
        })
        .await?;
        if is_renewed {
            // With that it is on sale again, and has another state and other dates.
            let remote = self.remote(id).await?;
            self.change(id, |listing| listing.answered(&remote)).await?;
        }
        Ok(())
    }

    /// A listing as it is at Etsy now.
    async fn remote(&self, id: ListingId) -> Result<Value, Halt> {
        let mut found = self.caller.call(&Call::batch(&[id])).await?;
        found["results"].get_mut(0).map(Value::take).ok_or(Halt::Gone)
    }

    /// The state, last, and only because a user said so. What it is now is asked for again: since the listings were
    /// read, one may have expired, and to activate that one costs the seller a fee.
    async fn send_state(&self, listing: &Listing, sections: &Mutex<Sections>) -> Result<(), Halt> {
        let Some(wanted) = listing.changes.get("state").filter(|change| change.rev <= listing.rev) else {
            return Ok(());
        };
        let remote = self.remote(listing.listing_id).await?;
        let (now, to) =
            (remote["state"].as_str().unwrap_or_default(), wanted.value.as_str().unwrap_or_default());
        if to == "active" && !["active", "inactive"].contains(&now) && !listing.accepts_fee {
            return Err(Halt::Refused(FEE.to_owned()));
        }
        let known = sections.lock().await.clone();
        // Where it is so already, by an attempt whose answer was lost or by the seller, what was read is what is known.
        let mut answer = remote.clone();
        if now != to {
            let form = vec![("state".to_owned(), to.to_owned())];
            answer = self.caller.call(&Call::patch(self.shop, listing.listing_id, form)).await?;
        }
        let send = Fields::from([("state".to_owned(), wanted.value.clone())]);
        let lied = now != to && answer["state"] != wanted.value;
        let rev = listing.rev;
        self.change(listing.listing_id, |listing| {
            listing.answered(&answer);
            listing.sent(|name| name == "state" && !lied, rev, &send, &known);
        })
        .await?;
        refuse_lies(&if lied { vec!["state".to_owned()] } else { Vec::new() })
    }

    /// Changes a listing under the lease; gives it as it is then.
    async fn change(
        &self,
        id: ListingId,
        mut change: impl FnMut(&mut Listing) + Send,
    ) -> Result<Option<Listing>, Trouble> {
        let update = self.sync.shelves.listings.update(listing_key(self.shop, id), |had| {
            let Some(had) = had else { return Change::Leave };
            let mut listing = had.value;
            change(&mut listing);
            let label = listing.standing().as_str();
            Change::from(Draft::new(listing).label(label))
        });
        Ok(update.under(self.ctx).await?)
    }

    /// Etsy does not take a listing: that is said, and waits for the user, who may have changed it meanwhile.
    async fn refused(&self, id: ListingId, rev: u64, message: &str) -> Result<(), Trouble> {
        self.change(id, |listing| {
            if listing.rev == rev {
                listing.error = Some(message.to_owned());
            }
        })
        .await?;
        self.note("listing", message.to_owned(), Some(id)).await?;
        Ok(())
    }
}

/// The answer to a PATCH has no images: they are as they were, in the order that was asked for.
fn with_images(mut answer: Value, remote: &Value, send: &Fields) -> Value {
    let images = remote["images"].as_array().cloned().unwrap_or_default();
    let kept: Vec<Value> = match send.get("image_ids").and_then(Value::as_array) {
        None => images,
        Some(ids) => {
            let find = |(rank, id): (usize, &Value)| {
                let mut image = images.iter().find(|image| image["listing_image_id"] == *id)?.clone();
                image["rank"] = json!(rank + 1);
                Some(image)
            };
            ids.iter().enumerate().filter_map(find).collect()
        }
    };
    answer["images"] = Value::Array(kept);
    answer
}

/// What Etsy said yes to and did not do.
fn not_done(send: &Fields, after: &Fields) -> Vec<String> {
    send.iter()
        .filter(|(name, value)| after.get(*name) != Some(value))
        .map(|(name, _)| name.clone())
        .collect()
}

fn refuse_lies(not_done: &[String]) -> Result<(), Halt> {
    if not_done.is_empty() {
        return Ok(());
    }
    Err(Halt::Refused(format!("Etsy said yes, but did not change {}; change it again", not_done.join(", "))))
}
