//! The programs of the demo: started, started again when they end, and ended with it.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use windlass_app::Stop;
use windlass_engine::world::World;

use super::ENDS_WITH_PARENT;
use super::scene::{Member, Scene};

/// How long a program may take to end.
const GRACE_MS: u64 = 15_000;
/// How long after its end a program is started again.
const AGAIN_MS: u64 = 1_500;
/// A program that ends so often is not started again.
const STARTS_MAX: usize = 50;

/// The programs.
pub struct Crew {
    scene: Arc<Scene>,
    world: Arc<dyn World>,
    states: Vec<State>,
}

#[derive(Default)]
struct State {
    pid: AtomicI32,
    starts: AtomicUsize,
}

impl Crew {
    /// Programs that do not run yet.
    pub fn new(scene: Arc<Scene>, world: Arc<dyn World>) -> Self {
        let states = scene.members.iter().map(|_| State::default()).collect();
        Self { scene, world, states }
    }

    /// The process of a program and how often it was started; nothing while it does not run.
    pub fn process(&self, at: usize) -> (Option<i32>, usize) {
        let state = &self.states[at];
        let pid = Some(state.pid.load(Ordering::Relaxed)).filter(|pid| *pid > 0);
        (pid, state.starts.load(Ordering::Relaxed))
    }

    /// Runs all of them until `stop`.
    pub async fn run(&self, stop: Stop) -> anyhow::Result<()> {
        let all = (0..self.states.len()).map(|at| self.keep(at, &stop));
        let ended = futures::future::join_all(all).await;
        ended.into_iter().collect()
    }

    async fn keep(&self, at: usize, stop: &Stop) -> anyhow::Result<()> {
        let (member, state) = (&self.scene.members[at], &self.states[at]);
        loop {
            let started = self.start(member);
            let mut child = match started {
                Ok(child) => child,
                Err(error) => {
                    stop.ask();
                    return Err(error);
                }
            };
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
            state.pid.store(pid, Ordering::Relaxed);
            let starts = state.starts.fetch_add(1, Ordering::Relaxed) + 1;
            let ended = tokio::select! {
                ended = child.wait() => Some(ended),
                () = stop.wait() => None,
            };
            if let Some(ended) = ended {
                state.pid.store(0, Ordering::Relaxed);
                let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                let log = self.scene.folder.join("logs").join(format!("{}.log", member.name));
                if starts >= STARTS_MAX {
                    eprintln!(
                        "{} has ended {starts} times ({how}) and is left alone; {} says why",
                        member.name,
                        log.display()
                    );
                    stop.wait().await;
                    return Ok(());
                }
                eprintln!(
                    "{} has ended ({how}) and is started again; {} may say why",
                    member.name,
                    log.display()
                );
                tokio::select! { () = self.world.sleep_ms(AGAIN_MS) => continue, () = stop.wait() => return Ok(()) }
            }
            self.end(&mut child, pid).await;
            state.pid.store(0, Ordering::Relaxed);
            return Ok(());
        }
    }

    fn start(&self, member: &Member) -> anyhow::Result<Child> {
        let log = self.scene.folder.join("logs").join(format!("{}.log", member.name));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        let this = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(this);
        command.args(&member.arguments).envs(member.settings.iter().cloned()).env(ENDS_WITH_PARENT, "1");
        // What is set for a server of one's own is not meant for the demo's.
        for name in [
            "WINDLASS_TOKEN",
            "WINDLASS_URL",
            "WINDLASS_CONFIG",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "http_proxy",
            "https_proxy",
        ] {
            command.env_remove(name);
        }
        command.current_dir(self.scene.folder.join(member.home)).stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file).kill_on_drop(true);
        // Ctrl-C is for the demo, which ends its programs in its own way.
        command.process_group(0);
        command.spawn().with_context(|| format!("cannot start {}", member.name))
    }

    /// Told, waited for, ended.
    async fn end(&self, child: &mut Child, pid: i32) {
        if let Some(pid) = Pid::from_raw(pid) {
            // One that has ended meanwhile does not hear it.
            let _ = kill_process(pid, Signal::TERM);
        }
        tokio::select! {
            _ = child.wait() => {}
            () = self.world.sleep_ms(GRACE_MS) => {
                let _ = child.kill().await;
            }
        }
    }
}
