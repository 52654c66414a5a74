//! Makes things happen: stories are published, buyers buy, somebody starts jobs and thinks better of it.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_app::Stop;
use windlass_engine::world::World;
use windlass_standins::{Answer, EtsyTokens, Sites, Story};

use super::outside::Outside;
use super::scene::Scene;
use super::talk::Talk;

/// The shops: number, listings. The last one has so many that its quota does not last.
const SHOPS: [(u64, usize); 4] = [(101, 40), (102, 120), (103, 15), (900, 6_000)];
/// What Etsy allows each of them.
const CALLS_PER_SECOND: u32 = 5;
const CALLS_PER_DAY: u32 = 400;
/// How many stories there are at the start.
const STORIES_AT_FIRST: usize = 12;
/// The longest that Etsy's clock of the demo is waited for.
const TURN_MS: u64 = 1_000;

/// A voice message, as it is written by the application that receives it.
const MESSAGE: &str = "INSERT INTO whatsapp_inbound_messages (message_sid, from_number, agency_id, message_type, media_url, \
    processing_status, current_stage, retry_count, received_at) VALUES ($1, 'whatsapp:+4915100000001', 'agency-1', 'voice', \
    $2, 'READY', 'RECEIVED', 0, to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'))";

/// Plays until `stop`.
pub async fn run(scene: Arc<Scene>, outside: Arc<Outside>, world: Arc<dyn World>, stop: Stop) {
    let bases = scene.members.iter().map(|member| member.base.clone());
    let talk = match Talk::with(bases) {
        Ok(talk) => talk,
        Err(error) => return tracing::error!("the demo has no traffic: {error:#}"),
    };
    let play = Play { scene, outside, world, talk };
    tokio::select! {
        ((), (), (), (), ()) = async {
            tokio::join!(play.stories(), play.shops(), play.searches(), play.messages(), play.orders())
        } => {}
        () = stop.wait() => {}
    }
}

struct Play {
    scene: Arc<Scene>,
    outside: Arc<Outside>,
    world: Arc<dyn World>,
    talk: Talk,
}

impl Play {
    async fn pause(&self, ms: u64) {
        self.world.sleep_ms(self.scene.paced_ms(ms)).await;
    }

    /// Stories are numbered by the time since the demo began, so that a second start goes on with new ones.
    async fn stories(&self) {
        let now_s = self.world.wall().ms() / 1_000;
        let first = usize::try_from((now_s - self.scene.began.ms() / 1_000) / 4).unwrap_or(0);
        for number in first..first + STORIES_AT_FIRST {
            self.publish(number);
        }
        for number in first + STORIES_AT_FIRST.. {
            self.pause(4_000).await;
            self.publish(number);
            if number % 15 == 0 {
                self.outside.forget();
            }
        }
    }

    /// Most pages are there; some come late, some want money, and one in a while is gone.
    fn publish(&self, number: usize) {
        let path = format!("/articles/{number}");
        let sites = &self.outside.sites;
        match number % 20 {
            7 | 14 => {
                sites.put(&path, Answer::new(503, "text/html", "<html>come back later</html>"));
                let (outside, world, scene) = (self.outside.clone(), self.world.clone(), self.scene.clone());
                tokio::spawn(async move {
                    world.sleep_ms(scene.paced_ms(18_000)).await;
                    outside.sites.put_html(&path, Sites::article(&format!("Bitcoin report {number}")));
                });
            }
            11 => sites.put(&path, Sites::paywall()),
            17 => sites.put(&path, Answer::new(404, "text/html", "<html>gone</html>")),
            _ => {}
        }
        let link = self.outside.through("sites", &sites.page(&format!("/articles/{number}")));
        let published_s = self.world.wall().ms() / 1_000;
        self.outside.newsdata.publish(Story { link, published_s, ..Story::made_up(number) });
    }

    /// Shops sell, sellers edit here and there, and one shop asks for more than Etsy allows.
    async fn shops(&self) {
        let Some(vela) = self.scene.base("vela") else { return };
        let etsy = &self.outside.etsy;
        etsy.limit(CALLS_PER_SECOND, CALLS_PER_DAY, true);
        let mut listings = Vec::new();
        for (shop, count) in SHOPS {
            let tokens = etsy.add_shop(shop, shop + 5_000);
            listings.push(etsy.fill(shop, count, "active"));
            self.connect(vela, shop, &tokens).await;
        }
        for turn in 0_usize.. {
            self.pause(6_000).await;
            let (shop, own) = (SHOPS[turn % 3].0, &listings[turn % 3]);
            let listing = own[turn * 7 % own.len()];
            match turn % 5 {
                0 => etsy.sell(listing, 0, 1),
                1 => etsy.edit(listing, "title", format!("Thing of the season {turn}")),
                2 => {
                    let edited = json!({ "title": format!("A better title {turn}") });
                    self.talk.patch(&format!("{vela}/shops/{shop}/listings/{listing}"), &edited).await;
                    self.task(vela, "upload_changes", shop).await;
                }
                3 => drop(self.task(vela, "forced_download", shop).await),
                _ => self.think_better_of_it(vela).await,
            }
        }
    }

    /// Until Vela is there to hear of it. A shop that it knows already gets the tokens of this start.
    async fn connect(&self, vela: &str, shop: u64, tokens: &EtsyTokens) {
        let body = json!({
            "shop_id": shop, "user_id": shop + 5_000, "access_token": tokens.access,
            "refresh_token": tokens.refresh, "expires_at": "2999-01-01T00:00:00Z",
        });
        while self.talk.post(&format!("{vela}/shops"), &body).await.is_none() {
            self.world.sleep_ms(TURN_MS).await;
        }
    }

    async fn task(&self, vela: &str, kind: &str, shop: u64) -> Option<Value> {
        self.talk.post(&format!("{vela}/tasks"), &json!({ "type": kind, "shop_id": shop })).await
    }

    /// A download of the largest shop is asked for, and canceled.
    async fn think_better_of_it(&self, vela: &str) {
        let Some(server) = self.scene.base("serve") else { return };
        let asked = self.task(vela, "forced_download", SHOPS[3].0).await;
        let Some(id) = asked.as_ref().and_then(|task| task["id"].as_str()) else { return };
        self.pause(2_000).await;
        self.talk.post(&format!("{server}/v1/jobs/{id}/cancel"), &json!({})).await;
    }

    /// Nurses send voice messages: rows of a table, as the application that owns it writes them.
    async fn messages(&self) {
        let Some(url) = self.scene.database().await else { return };
        let Ok(pool) = windlass_postgres::pool_of(&url, &windlass_postgres::Options::default()) else {
            return;
        };
        let first = self.world.wall().ms() / 1_000;
        for number in first.. {
            let sid = format!("SM{number}");
            let media = self.outside.twilio.media_url(&sid, &format!("ME{number}"));
            let media = self.outside.through("twilio", &media);
            let sent = async { pool.get().await.ok()?.execute(MESSAGE, &[&sid, &media]).await.ok() };
            if sent.await.is_none() {
                tracing::debug!("a voice message of the demo was not written");
            }
            self.pause(12_000).await;
        }
    }

    #[cfg(not(feature = "listener"))]
    async fn orders(&self) {}

    /// Customers order, and pay a moment later: documents of somebody else's database, which the Listener watches.
    #[cfg(feature = "listener")]
    async fn orders(&self) {
        let (Some(listener), Some(stage)) = (self.scene.base("listener"), self.scene.stage().await) else {
            return;
        };
        self.listen(listener).await;
        let first = self.world.wall().ms() / 1_000;
        for number in first.. {
            let id = format!("order-{number}");
            for fields in [json!({ "status": "new", "total": number % 90 + 10 }), json!({ "status": "paid" })]
            {
                if let Err(error) = stage.put("orders", &id, &fields).await {
                    tracing::debug!(%error, "an order of the demo was not written");
                }
                self.pause(2_000).await;
            }
        }
    }

    /// The listener of the demo; it is made when it is not there, as soon as somebody answers.
    #[cfg(feature = "listener")]
    async fn listen(&self, base: &str) {
        let url = format!("{base}/listeners");
        let wish = json!({
            "collection": "orders", "database": super::mongo::WATCHED, "jobName": "printReceipt",
            "filter": { "status": "paid" },
        });
        loop {
            let known = self.talk.get(&url).await;
            let known = known.as_ref().and_then(|known| known["listeners"].as_array());
            if known.is_some_and(|known| !known.is_empty()) {
                return;
            }
            if known.is_some() && self.talk.post(&url, &wish).await.is_some() {
                return;
            }
            self.world.sleep_ms(TURN_MS).await;
        }
    }

    /// The news are searched, states are assigned, and every fourth search is canceled.
    async fn searches(&self) {
        let Some(nexus) = self.scene.base("news-nexus") else { return };
        for turn in 0_usize.. {
            let now_s = self.world.wall().ms() / 1_000 - self.scene.began.ms() / 1_000;
            self.outside.more_news(usize::try_from(now_s / 20).unwrap_or(0));
            let started = self.talk.post(&format!("{nexus}/request-google-rss/start-job"), &json!({})).await;
            if turn % 4 == 3
                && let Some(id) = started.as_ref().and_then(|job| job["jobId"].as_str())
            {
                self.pause(1_200).await;
                self.talk.post(&format!("{nexus}/queue-info/cancel_job/{id}"), &json!({})).await;
            }
            let wish = json!({ "targetArticleThresholdDaysOld": 3650, "targetArticleStateReviewCount": 5 });
            self.talk.post(&format!("{nexus}/state-assigner/start-job"), &wish).await;
            // The program may not have been there yet.
            let pause_ms = if started.is_some() { 25_000 } else { 2_000 };
            self.pause(pause_ms).await;
        }
    }
}
