//! The deployment files of the Nurse Tour worker: the commands in them are run as they are written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_testkit::eventually::eventually;
use windlass_testkit::program::Program;

use crate::scene::Scene;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file(name: &str) -> String {
    let path = root().join("apps/nurse-tour/deploy").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn words(value: &toml::Value) -> Vec<String> {
    let list = value.as_array().unwrap_or_else(|| panic!("{value:?} is no list"));
    list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// A JSON list after a word at the beginning of a line, as Dockerfiles have it.
fn listed(dockerfile: &str, word: &str) -> Vec<String> {
    let line = dockerfile.lines().find_map(|line| line.strip_prefix(word)).unwrap();
    serde_json::from_str(line.trim()).unwrap()
}

/// A machine as a deployment finds it: the program on the path and where a build leaves it, and the scene's settings.
struct Machine {
    scene: Scene,
    folder: tempfile::TempDir,
}

impl Machine {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for place in ["bin", "target/release"] {
            fs::create_dir_all(folder.path().join(place)).unwrap();
            let link = folder.path().join(place).join("windlass");
            std::os::unix::fs::symlink(windlass_testkit::binary::windlass(), link).unwrap();
        }
        Self { scene: Scene::bare().await, folder }
    }

    fn command(&self, words: &[String]) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display());
        let mut command = Command::new("env");
        command
            .args(words)
            .env_clear()
            .envs(&self.scene.env)
            .env("PATH", path)
            .current_dir(self.folder.path());
        command
    }

    /// Runs a command to its end, which must be a good one.
    async fn run(&self, words: &[String]) {
        let mut command = self.command(words);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// Starts a command, sees it work a message, and ends it as the platform does.
    async fn works(&self, words: &[String], sid: &str) {
        let program = Program::start(self.command(words).stdout(Stdio::null()));
        let there = "SELECT count(*) FROM pg_trigger WHERE tgname = 'nurse_tour_announce'";
        self.scene.until("the database is migrated", there, 1).await;
        self.scene.message(sid).await;
        let done = format!(
            "SELECT count(*) FROM whatsapp_inbound_messages WHERE message_sid = '{sid}' AND processing_status = 'DONE'"
        );
        self.scene.until("the message is worked", &done, 1).await;
        program.signal(libc::SIGTERM);
        let status = tokio::task::spawn_blocking(move || program.wait()).await.unwrap();
        assert_eq!(status.code(), Some(0), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nurse_tour_deploys_on_railway_and_in_docker() {
    let machine = Machine::new().await;
    let railway: toml::Table = file("railway.toml").parse().unwrap();
    let dockerfile = railway["build"]["dockerfilePath"].as_str().unwrap();
    let dockerfile = fs::read_to_string(root().join(dockerfile)).unwrap();
    for command in words(&railway["deploy"]["preDeployCommand"]) {
        machine.run(&["sh".into(), "-c".into(), command]).await;
    }
    let entrypoint = listed(&dockerfile, "ENTRYPOINT");
    machine.works(&entrypoint, "SM1").await;
    machine.run(&[entrypoint, vec!["migrate".into()]].concat()).await;
    // What is built is what is copied, and what the other files build.
    assert!(dockerfile.contains("COPY --from=build /src/target/release/windlass "), "{dockerfile}");
    let replit: toml::Table = file("replit.toml").parse().unwrap();
    let build = words(&replit["deployment"]["build"]).join(" ");
    assert!(dockerfile.contains(&format!("RUN {build}\n")), "{build}");
    // Railway and Docker wait longer than the worker does.
    assert!(railway["deploy"]["drainingSeconds"].as_integer().unwrap() > 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn nurse_tour_deploys_on_a_second_replit() {
    let machine = Machine::new().await;
    let replit: toml::Table = file("replit.toml").parse().unwrap();
    machine.works(&words(&replit["deployment"]["run"]), "SM1").await;
    machine.works(&words(&replit["run"]), "SM2").await;
}

/// A unit comes back however often it has ended, and does not spin.
#[test]
fn nurse_tour_units_come_back() {
    for name in ["nurse-tour.service", "nurse-tour-webhook.service"] {
        let unit = file(name);
        let (head, service) = unit.split_once("[Service]").expect("a service");
        assert!(head.contains("\nStartLimitIntervalSec=0\n"), "{name} is given up after five starts");
        assert!(service.contains("\nRestart=always\nRestartSec=5\n"), "{name}");
    }
}

/// The unit as it is: its command, with its secrets as files.
#[tokio::test(flavor = "multi_thread")]
async fn nurse_tour_deploys_under_systemd() {
    let mut machine = Machine::new().await;
    let unit = file("nurse-tour.service");
    let values = |key: &str| -> Vec<String> {
        unit.lines().filter_map(|line| line.strip_prefix(key)).map(str::to_owned).collect()
    };
    // Credentials are files in a folder that systemd makes, which the unit calls %d.
    let credentials = machine.folder.path().join("credentials");
    fs::create_dir(&credentials).unwrap();
    for (name, variable) in [("openai", "OPENAI_API_KEY"), ("twilio", "TWILIO_AUTH_TOKEN")] {
        assert!(values("LoadCredential=").iter().any(|value| value.starts_with(&format!("{name}:/"))));
        fs::write(credentials.join(name), format!("{}\n", machine.scene.env.remove(variable).unwrap()))
            .unwrap();
    }
    let specified = [("%d", credentials.to_str().unwrap()), ("%H", "host"), ("%i", "1")];
    for pair in values("Environment=").join(" ").split(' ') {
        let pair = specified.iter().fold(pair.to_owned(), |pair, (mark, value)| pair.replace(mark, value));
        let (name, value) = pair.split_once('=').unwrap();
        machine.scene.env.insert(name.to_owned(), value.to_owned());
    }
    machine.run(&["windlass", "nurse-tour", "migrate"].map(str::to_owned)).await;
    let [start] = values("ExecStart=/usr/local/bin/").try_into().expect("one command");
    let start: Vec<String> = start.split(' ').map(str::to_owned).collect();
    machine.works(&start, "SM1").await;
    let by = "SELECT count(*) FROM nurse_tour_audit WHERE worker = 'host-1' AND outcome = 'completed'";
    assert_eq!(machine.scene.count(by).await, 1);
}

/// The services of the compose file: each has a command that there is, and what it needs to start.
#[tokio::test(flavor = "multi_thread")]
async fn nurse_tour_deploys_by_compose() {
    let mut machine = Machine::new().await;
    let compose = file("compose.yml");
    assert!(compose.contains("dockerfile: apps/nurse-tour/deploy/Dockerfile"), "{compose}");
    let entrypoint = listed(&file("Dockerfile"), "ENTRYPOINT");
    for verb in ["migrate", "webhook"] {
        assert!(compose.contains(&format!("command: [ \"{verb}\" ]")), "{verb}");
    }
    machine.run(&[entrypoint.clone(), vec!["migrate".into()]].concat()).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    machine.scene.env.insert("WEBHOOK_LISTEN".into(), format!("0.0.0.0:{port}"));
    machine.scene.env.insert("WEBHOOK_PUBLIC_URL".into(), "https://hooks.example.com/twilio".into());
    let words = [entrypoint, vec!["webhook".into()]].concat();
    let webhook = Program::start(machine.command(&words).stdout(Stdio::null()));
    let connect = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok();
    eventually("the webhook listens", connect).await;
    webhook.signal(libc::SIGTERM);
    let status = tokio::task::spawn_blocking(move || webhook.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}
