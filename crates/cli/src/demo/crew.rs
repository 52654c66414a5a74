//! The programs of the demo: started, started again when they end, and ended with it.

use std::ffi::OsStr;
use std::path::Path;
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
/// What of the environment the programs get. The rest is meant for programs of one's own: with a key and the name of a
/// provider in it, one of the demo would ask that provider instead of its stand-in.
const INHERITED: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "WINDLASS_LOG"];

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
            self.note(at, pid);
            let starts = state.starts.fetch_add(1, Ordering::Relaxed) + 1;
            let ended = tokio::select! {
                ended = child.wait() => Some(ended),
                () = stop.wait() => None,
            };
            if let Some(ended) = ended {
                self.note(at, 0);
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
            self.note(at, 0);
            return Ok(());
        }
    }

    /// Remembers which process a program is, here and in its file; 0 when it is none. The file is there whole or not at
    /// all: whoever reads it is about to kill what it names.
    fn note(&self, at: usize, pid: i32) {
        self.states[at].pid.store(pid, Ordering::Relaxed);
        let file = self.scene.pid_file(self.scene.members[at].name);
        let noted = match pid {
            0 => std::fs::remove_file(&file),
            pid => {
                let new = file.with_extension("pid-new");
                std::fs::write(&new, format!("{pid}\n")).and_then(|()| std::fs::rename(&new, &file))
            }
        };
        if let Err(error) = noted {
            eprintln!("cannot write {}: {error}", file.display());
        }
    }

    fn start(&self, member: &Member) -> anyhow::Result<Child> {
        let log = self.scene.folder.join("logs").join(format!("{}.log", member.name));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot write {}", log.display()))?;
        let home = self.scene.folder.join(member.home);
        let mut command = command(&member.arguments, &home, &member.settings)?;
        command.stdout(file.try_clone()?).stderr(file);
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

/// This program with these arguments, in an environment of these settings and of next to nothing else.
pub fn command(
    arguments: &[impl AsRef<OsStr>],
    home: &Path,
    settings: &[(String, String)],
) -> anyhow::Result<Command> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let mut command = bare(&this);
    command.args(arguments).envs(settings.iter().cloned()).env(ENDS_WITH_PARENT, "1");
    command.current_dir(home).stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

/// A program in an environment of next to nothing.
pub fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set for every test by whatever runs it, and for nobody else to see.
    const CANARY: &str = "CARGO_MANIFEST_DIR";

    #[tokio::test]
    async fn programs_see_nothing_of_the_environment_but_what_is_listed() {
        assert!(std::env::var_os(CANARY).is_some(), "the canary is alive");
        let said = bare(Path::new("env")).output().await.unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let names: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        assert!(names.contains(&"PATH") && !names.contains(&CANARY), "{names:?}");
        assert!(names.iter().all(|name| INHERITED.contains(name)), "{names:?}");
    }

    #[test]
    fn settings_are_on_top() {
        let settings = [("AI_PROVIDER".to_owned(), "local".to_owned()), ("TZ".to_owned(), "UTC".to_owned())];
        let command = command(&["serve"], Path::new("/"), &settings).unwrap();
        let has = |name: &str| {
            command.as_std().get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value)
        };
        assert_eq!(has("AI_PROVIDER"), Some(OsStr::new("local")));
        assert_eq!(has("TZ"), Some(OsStr::new("UTC")));
        assert_eq!(has(ENDS_WITH_PARENT), Some(OsStr::new("1")));
        assert_eq!(has(CANARY), None);
    }
}
