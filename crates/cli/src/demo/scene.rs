//! Who takes part, with what settings, and where each can be looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use windlass_engine::core::time::Time;
use windlass_engine::world::World;
use windlass_report::doctor::quoted;

use super::crew;
use super::folder::Folder;
#[cfg(feature = "listener")]
use super::mongo::{self, Mongo};
use super::outside::Outside;
use super::postgres::Postgres;

/// What a program is started with.
pub struct Member {
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    pub arguments: Vec<String>,
    pub settings: Vec<(String, String)>,
    /// Its folder, within the demo's.
    pub home: &'static str,
    /// Where it answers.
    pub base: String,
    /// What people should look at.
    pub link: String,
}

/// Everything that the demo consists of.
pub struct Scene {
    pub folder: PathBuf,
    pub began: Time,
    pub speed: f64,
    pub members: Vec<Member>,
    /// Who is not there, and why.
    pub absent: Vec<(&'static str, String)>,
    postgres: tokio::sync::Mutex<Option<Postgres>>,
    #[cfg(feature = "listener")]
    mongo: tokio::sync::Mutex<Option<Mongo>>,
}

impl Scene {
    /// Makes what is missing in the folder, and says who takes part.
    pub async fn set(
        folder: &mut Folder,
        outside: &Outside,
        speed: f64,
        world: &Arc<dyn World>,
    ) -> anyhow::Result<Self> {
        let store = format!("sqlite:{}", folder.path().join("windlass.db").display());
        let mut scene = Self {
            folder: folder.path().to_owned(),
            began: folder.began(),
            speed,
            members: vec![server(folder, &store)?],
            absent: Vec::new(),
            postgres: tokio::sync::Mutex::new(None),
            #[cfg(feature = "listener")]
            mongo: tokio::sync::Mutex::new(None),
        };
        match cfg!(feature = "bitcoin-news") {
            true => scene.members.push(bitcoin_news(folder, outside, &store, speed)?),
            false => scene.absent.push(("Bitcoin News", NOT_BUILT.to_owned())),
        }
        match cfg!(feature = "vela") {
            true => scene.members.push(vela(folder, outside, &store, speed)?),
            false => scene.absent.push(("Vela", NOT_BUILT.to_owned())),
        }
        match cfg!(feature = "news-nexus") {
            true => scene.members.push(news_nexus(folder, outside, speed).await?),
            false => scene.absent.push(("News Nexus", NOT_BUILT.to_owned())),
        }
        match cfg!(feature = "nurse-tour") {
            true => scene.add_nurse_tour(folder, outside, world).await,
            false => scene.absent.push(("Nurse Tour", NOT_BUILT.to_owned())),
        }
        #[cfg(feature = "listener")]
        scene.add_listener(folder, world).await;
        #[cfg(not(feature = "listener"))]
        scene.absent.push((
            "Listener",
            format!("{NOT_BUILT}; get it with: cargo run --release --features listener -- demo"),
        ));
        Ok(scene)
    }

    /// Nurse Tour works on Postgres: it joins when there is one.
    async fn add_nurse_tour(&mut self, folder: &mut Folder, outside: &Outside, world: &Arc<dyn World>) {
        let found = async {
            let port = folder.port("postgres", 0)?;
            let postgres = Postgres::find(&self.folder, port, world).await?;
            let Some(postgres) = postgres else { return Ok(None) };
            let member = nurse_tour(folder, outside, &postgres.url, self.speed).await?;
            Ok::<_, anyhow::Error>(Some((postgres, member)))
        };
        let absent = match found.await {
            Ok(Some((postgres, member))) => {
                self.members.push(member);
                *self.postgres.get_mut() = Some(postgres);
                return;
            }
            Ok(None) => "it works on Postgres, which is not on this machine; or set DATABASE_URL".to_owned(),
            Err(error) => format!("it works on Postgres, and {error:#}"),
        };
        self.absent.push(("Nurse Tour", absent));
    }

    /// The Listener works on MongoDB: it joins when there is one.
    #[cfg(feature = "listener")]
    async fn add_listener(&mut self, folder: &mut Folder, world: &Arc<dyn World>) {
        let found = async {
            let port = folder.port("mongo", 0)?;
            let Some(mongo) = Mongo::find(&self.folder, port, world).await? else { return Ok(None) };
            let member = listener(folder, &mongo, self.speed).await?;
            Ok::<_, anyhow::Error>(Some((mongo, member)))
        };
        let absent = match found.await {
            Ok(Some((mongo, member))) => {
                self.members.push(member);
                *self.mongo.get_mut() = Some(mongo);
                return;
            }
            Ok(None) => {
                "it works on MongoDB, and there is no mongod on this machine; or set MONGODB_URI".to_owned()
            }
            Err(error) => format!("it works on MongoDB, and {error:#}"),
        };
        self.absent.push(("Listener", absent));
    }

    /// Where the documents are that the Listener watches, if it takes part.
    #[cfg(feature = "listener")]
    pub async fn stage(&self) -> Option<::listener::Stage> {
        self.mongo.lock().await.as_ref()?.stage().await.ok()
    }

    /// The database of Nurse Tour, if it takes part.
    pub async fn database(&self) -> Option<String> {
        self.postgres.lock().await.as_ref().map(|postgres| postgres.url.clone())
    }

    /// Ends what is not a program of ours.
    pub async fn end(&self) {
        if let Some(postgres) = self.postgres.lock().await.as_mut() {
            postgres.end().await;
        }
        #[cfg(feature = "listener")]
        if let Some(mongo) = self.mongo.lock().await.as_mut() {
            mongo.end().await;
        }
    }

    /// Who has this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Where somebody answers; nothing when they are not there.
    pub fn base(&self, name: &str) -> Option<&str> {
        self.member(name).map(|member| member.base.as_str())
    }

    /// Where the process of somebody is written down while it runs.
    pub fn pid_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pid"))
    }

    /// A time of the demo, at its speed.
    pub fn paced_ms(&self, ms: u64) -> u64 {
        ((ms as f64 / self.speed) as u64).max(50)
    }

    /// Five things to try, with the command of each.
    pub fn tries(&self, page_port: u16) -> Vec<(&'static str, String)> {
        let this = std::env::current_exe()
            .map_or_else(|_| "windlass".to_owned(), |path| quoted(&path.display().to_string()));
        let url = self.base("serve").unwrap_or_default();
        let windlass = format!("WINDLASS_URL={url} {this}");
        let victim = if self.member("vela").is_some() { "vela" } else { "serve" };
        vec![
            (
                "Kill a worker as a crash would, and see that what it held goes on",
                format!("kill -9 $(cat {})", quoted(&self.pid_file(victim).display().to_string())),
            ),
            (
                "Cut off the papers' web sites for a while; articles climb their ladder until they are back",
                format!("curl -X POST http://127.0.0.1:{page_port}/demo/providers/sites/off   # and /on"),
            ),
            ("Cancel whatever is running now", format!("{windlass} cancel --state running")),
            ("Ask why a job is not running", format!("{windlass} explain")),
            (
                "Be a worker: any program is one",
                format!(
                    "{windlass} enqueue greet '{{\"name\": \"Ada\"}}' && {windlass} work --kind greet --until-idle -- cat"
                ),
            ),
        ]
    }
}

const NOT_BUILT: &str = "it is not in this build";

/// Delays of a ladder at a speed.
fn ladder(seconds: &[f64], speed: f64) -> String {
    let rungs = seconds.iter().map(|seconds| format!("{}ms", ((seconds * 1_000.0 / speed) as u64).max(100)));
    rungs.collect::<Vec<_>>().join(" ")
}

fn pairs<const N: usize>(pairs: [(&str, String); N]) -> Vec<(String, String)> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn server(folder: &mut Folder, store: &str) -> anyhow::Result<Member> {
    let base = format!("http://127.0.0.1:{}", folder.port("serve", 7717)?);
    let listen = base.trim_start_matches("http://").to_owned();
    Ok(Member {
        name: "serve",
        about: "the dashboard: every job of Bitcoin News and Vela, and of yours",
        arguments: ["serve", "--listen", &listen, "--store", store].map(str::to_owned).to_vec(),
        settings: Vec::new(),
        home: ".",
        link: format!("{base}/"),
        base,
    })
}

fn bitcoin_news(folder: &mut Folder, outside: &Outside, store: &str, speed: f64) -> anyhow::Result<Member> {
    let base = format!("http://127.0.0.1:{}", folder.port("bitcoin-news", 7718)?);
    let settings = pairs([
        ("WINDLASS_STORE", store.to_owned()),
        ("BITCOIN_NEWS_LISTEN", base.trim_start_matches("http://").to_owned()),
        ("NEWSDATA_API_KEY", outside.newsdata.key()),
        ("NEWSDATA_BASE_URL", outside.through("newsdata", &outside.newsdata.url())),
        ("CLOUDFLARE_ACCOUNT_ID", outside.workers_ai.account()),
        ("CLOUDFLARE_API_TOKEN", outside.workers_ai.token()),
        ("CLOUDFLARE_BASE_URL", outside.through("workers-ai", &outside.workers_ai.url())),
        ("FETCH_ALLOW_HOSTS", outside.host("sites")),
        ("NEWS_CREDITS_PER_DAY", "100000".to_owned()),
        ("UPDATER_CRON", format!("*/{} * * * * *", ((10.0 / speed) as u64).clamp(1, 30))),
        ("MAX_ARTICLES_PER_RUN", "2".to_owned()),
        ("RETRY_LADDER", ladder(&[5.0, 15.0, 45.0], speed)),
    ]);
    Ok(Member {
        name: "bitcoin-news",
        about: "Bitcoin News: articles fetched, read by a model, served as page and feed",
        arguments: vec!["bitcoin-news".to_owned()],
        settings,
        home: ".",
        link: format!("{base}/"),
        base,
    })
}

fn vela(folder: &mut Folder, outside: &Outside, store: &str, speed: f64) -> anyhow::Result<Member> {
    let base = format!("http://127.0.0.1:{}", folder.port("vela", 7719)?);
    let settings = pairs([
        ("VELA_STORE", store.to_owned()),
        ("VELA_LISTEN", base.trim_start_matches("http://").to_owned()),
        ("ETSY_KEYSTRING", outside.etsy.keystring()),
        ("ETSY_SHARED_SECRET", outside.etsy.shared_secret()),
        ("ETSY_BASE_URL", outside.through("etsy", &outside.etsy.url())),
        ("ETSY_TOKEN_URL", outside.through("etsy", &outside.etsy.token_url())),
        ("ETSY_REDIRECT_URL", "https://shop.example/back".to_owned()),
        ("ETSY_QUOTA_SCOPE", "token".to_owned()),
        ("ETSY_PER_SECOND", "5".to_owned()),
        // The shortest that it knows; users of the demo ask for more in between.
        ("VELA_INTERVAL", "5m".to_owned()),
        // Without a limit nobody defines the budget that its tasks name, and the overview would begin with that.
        ("VELA_TASKS_PER_SECOND", "20".to_owned()),
        ("VELA_LADDER_UPLOAD", ladder(&[5.0, 20.0, 60.0, 300.0], speed)),
        ("VELA_LADDER_REGULAR", ladder(&[10.0, 60.0], speed)),
    ]);
    Ok(Member {
        name: "vela",
        about: "Vela: shops that are kept in sync with Etsy",
        arguments: ["vela", "all"].map(str::to_owned).to_vec(),
        settings,
        home: ".",
        link: format!("{base}/vela"),
        base,
    })
}

async fn news_nexus(folder: &mut Folder, outside: &Outside, speed: f64) -> anyhow::Result<Member> {
    let base = format!("http://127.0.0.1:{}", folder.port("news-nexus", 3002)?);
    let port = base.rsplit(':').next().unwrap_or_default().to_owned();
    let settings = pairs([
        ("PORT", port),
        ("NODE_ENV", "testing".to_owned()),
        ("KEY_OPEN_AI", outside.openai.key()),
        ("OPENAI_BASE_URL", outside.through("openai", &outside.openai.url())),
        ("GOOGLE_RSS_URL", format!("http://{}/rss/search", outside.host("google"))),
        ("MILISECONDS_IN_BETWEEN_REQUESTS", ((1_500.0 / speed) as u64).to_string()),
    ]);
    let home = folder.path().join("news-nexus");
    std::fs::create_dir_all(&home)?;
    run_to_its_end(&["news-nexus", "init", "."], &home, &settings).await?;
    Ok(Member {
        name: "news-nexus",
        about: "News Nexus: searches of the news, and states assigned by a model, in a queue of its own",
        arguments: vec!["news-nexus".to_owned()],
        settings,
        home: "news-nexus",
        link: format!("{base}/queue-info/queue_status"),
        base,
    })
}

async fn nurse_tour(
    folder: &mut Folder,
    outside: &Outside,
    database: &str,
    speed: f64,
) -> anyhow::Result<Member> {
    let base = format!("http://127.0.0.1:{}", folder.port("nurse-tour", 7720)?);
    let settings = pairs([
        ("DATABASE_URL", database.to_owned()),
        ("OPENAI_API_KEY", outside.openai.key()),
        ("OPENAI_BASE_URL", outside.through("openai", &outside.openai.url())),
        ("TWILIO_ACCOUNT_SID", outside.twilio.account()),
        ("TWILIO_AUTH_TOKEN", outside.twilio.token()),
        ("TWILIO_BASE_URL", outside.through("twilio", &outside.twilio.url())),
        ("WORKER_ALLOW_ORIGINS", format!("{},http://{}", outside.twilio.cdn.url(), outside.host("twilio"))),
        ("AUDIO_STORE_URL", format!("file://{}", folder.path().join("audio").display())),
        ("WORKER_HTTP_LISTEN", base.trim_start_matches("http://").to_owned()),
        ("WORKER_POLL_INTERVAL_MS", "1000".to_owned()),
        ("WORKER_RETRY_LADDER", ladder(&[5.0, 15.0, 45.0], speed).replace(' ', ",")),
    ]);
    run_to_its_end(&["nurse-tour", "migrate"], folder.path(), &settings).await?;
    Ok(Member {
        name: "nurse-tour",
        about: "Nurse Tour: voice messages heard, understood and documented, in a table of somebody else",
        arguments: vec!["nurse-tour".to_owned()],
        settings,
        home: ".",
        link: format!("{base}/health"),
        base,
    })
}

/// What the Listener's jobs do: receipts are printed, and now and then there is no paper for a while.
#[cfg(feature = "listener")]
const JOBS: &str = r#"[jobs.printReceipt]
command = ["sh", "-c", "cat >/dev/null; [ $(( $(date +%s) / 15 % 4 )) -ne 0 ] || { echo 'there is no paper' >&2; exit 1; }"]
"#;

#[cfg(feature = "listener")]
async fn listener(folder: &mut Folder, mongo: &Mongo, speed: f64) -> anyhow::Result<Member> {
    let base = format!("http://127.0.0.1:{}", folder.port("listener", 7723)?);
    let jobs = folder.path().join("listener.toml");
    std::fs::write(&jobs, JOBS).context("cannot write listener.toml")?;
    let mut settings = pairs([
        ("LISTENER_DATABASE", mongo::HOME.to_owned()),
        ("LISTENER_LISTEN", base.trim_start_matches("http://").to_owned()),
        ("LISTENER_CONFIG", jobs.display().to_string()),
        ("LISTENER_LADDER", ladder(&[10.0, 20.0, 40.0], speed)),
        ("LISTENER_RECOVERY_SECONDS", "5".to_owned()),
    ]);
    settings.extend(mongo.settings.iter().cloned());
    run_to_its_end(&["listener", "init"], folder.path(), &settings).await?;
    Ok(Member {
        name: "listener",
        about: "the Listener: a job for each order that is paid, from the changes of a MongoDB",
        arguments: vec!["listener".to_owned()],
        settings,
        home: ".",
        link: format!("{base}/listener"),
        base,
    })
}

/// Runs a verb of this program that must succeed.
async fn run_to_its_end(
    arguments: &[&str],
    home: &Path,
    settings: &[(String, String)],
) -> anyhow::Result<()> {
    let mut command = crew::command(arguments, home, settings)?;
    let verb = format!("windlass {}", arguments.join(" "));
    let made = command.output().await.with_context(|| format!("cannot run {verb}"))?;
    anyhow::ensure!(made.status.success(), "{verb} failed: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_follow_the_speed() {
        assert_eq!(ladder(&[5.0, 15.0], 1.0), "5000ms 15000ms");
        assert_eq!(ladder(&[5.0, 0.1], 10.0), "500ms 100ms");
    }
}
