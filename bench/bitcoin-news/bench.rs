//! Measures Bitcoin News: articles a second from the provider to the summary, with stand-ins that answer at once.
//! The program is the real one, in a process of its own; the stand-ins share the machine with it.
//!
//! The feed is measured from outside: `bench/bitcoin-news/run`.

use std::process::{Command, Stdio};
use std::sync::Arc;

use windlass_engine::world::{RealWorld, World};
use windlass_standins::{Newsdata, Sites, Story, WorkersAi};
use windlass_testkit::binary::windlass;
use windlass_testkit::program::Program;

/// How often the program is asked how far it is.
const LOOK_MS: u64 = 250;

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let (articles, at_once) = (args.next().unwrap_or(5_000), args.next().unwrap_or(32));
    let world: Arc<dyn World> = Arc::new(RealWorld::new());
    let (newsdata, sites, ai) = (Newsdata::start().await, Sites::start().await, WorkersAi::start().await);
    newsdata.page_size(250);
    for number in 1..=articles {
        newsdata
            .publish(Story { link: sites.page(&format!("/articles/{number}")), ..Story::made_up(number) });
    }
    let folder = tempfile::tempdir().expect("a folder for the store");
    let store = std::env::var("STORE")
        .unwrap_or_else(|_| format!("sqlite:{}", folder.path().join("news.db").display()));
    let command = |args: &[&str]| {
        let mut command = Command::new(windlass());
        command.arg("bitcoin-news").args(args).current_dir(folder.path());
        let pairs = [
            ("NEWSDATA_API_KEY", newsdata.key()),
            ("NEWSDATA_BASE_URL", newsdata.url()),
            ("CLOUDFLARE_ACCOUNT_ID", ai.account()),
            ("CLOUDFLARE_API_TOKEN", ai.token()),
            ("CLOUDFLARE_BASE_URL", ai.url()),
            ("FETCH_ALLOW_HOSTS", sites.host()),
            ("WINDLASS_STORE", store.clone()),
            ("MAX_ARTICLES_PER_RUN", at_once.to_string()),
            ("MAX_STORED_ARTICLES", "100000".to_owned()),
            ("MAX_PENDING_LIST_SIZE", "1000000".to_owned()),
            ("MAX_PAGES", "1000".to_owned()),
            ("BITCOIN_NEWS_LISTEN", "127.0.0.1:0".to_owned()),
            ("UPDATER_CRON", "* * * * * *".to_owned()),
        ];
        command.envs(pairs);
        command
    };
    let began_ms = world.boot_ms();
    let running = Program::start(command(&[]).stdout(Stdio::null()));
    let mut first = None;
    loop {
        world.sleep_ms(LOOK_MS).await;
        let summaries = ai.asked().len() / 2;
        if summaries > 0 {
            first.get_or_insert(world.boot_ms());
        }
        if summaries >= articles {
            let output = command(&["status", "--json"]).output().expect("the program runs");
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if status["done"] == articles {
                break;
            }
        }
    }
    let took_ms = world.boot_ms() - began_ms;
    println!(
        "{articles} articles, {at_once} at once, {store}: {took_ms} ms from the start of the program, {:.0} a second",
        articles as f64 * 1_000.0 / took_ms as f64
    );
    drop(running);
}
